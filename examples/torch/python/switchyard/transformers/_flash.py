# SPDX-License-Identifier: MIT
"""Serves transformers' own path to flash_attn by switchyard.flash_attn: for models that only take attn_implementation=
"flash_attention_2" or "flash_attention_3", and for what transformers prepares for these names, such as sequences packed by
positions."""

import functools

from transformers import PreTrainedModel, modeling_flash_attention_utils

from .. import flash_attn
from ..flash_attn._functions import run_dense, run_packed
from ..flash_attn.bert_padding import pad_input, unpad_input

_VERSIONS = {"flash_attention_2": 2, "flash_attention_3": 3}
_SERVED = "_switchyard_serves"

# transformers passes what the functions have parameters for, and drops the rest without a word: sinks are s_aux.


def _dense(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, deterministic=False,
           s_aux=None):  # fmt: skip
    return run_dense(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, None, deterministic, sinks=s_aux)


def _packed(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
            window_size=(-1, -1), softcap=0.0, deterministic=False, block_table=None, s_aux=None):  # fmt: skip
    return run_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal,
                      window_size, softcap, None, deterministic, False, block_table, s_aux)  # fmt: skip


_FUNCTIONS = (_dense, _packed, flash_attn.flash_attn_with_kvcache, pad_input, unpad_input)


def serve_flash_attention() -> None:
    """Serves attn_implementation="flash_attention_2" and "flash_attention_3" by Switchyard, even where flash_attn is installed,
    and on the CPU too.

    Affects the whole process; call it before models are created. transformers still refuses classes that do not support flash
    attention. Classes that only accept other flash attention implementations are refused as well.
    """
    utils = modeling_flash_attention_utils
    if hasattr(utils._lazy_imports, _SERVED):
        return
    for owner, name, ours in ((utils, "_lazy_imports", _imports), (PreTrainedModel, "_flash_attn_can_dispatch", _can_dispatch),
                              (PreTrainedModel, "_check_and_adjust_attn_implementation", _check_and_adjust)):  # fmt: skip
        setattr(owner, name, _around(getattr(owner, name), ours))
    if utils._loaded_implementation in _VERSIONS:  # another package's
        utils._loaded_implementation = None


def _around(before, ours):
    @functools.wraps(before)
    def function(*args, **kwargs):
        return ours(before, *args, **kwargs)

    setattr(function, _SERVED, True)
    return function


def _imports(before, implementation, *args, **kwargs):
    return _FUNCTIONS if implementation in _VERSIONS else before(implementation, *args, **kwargs)


def _can_dispatch(before, self, flash_attn_version, *args, **kwargs):
    if flash_attn_version not in _VERSIONS.values() or not self._supports_flash_attn:  # which it refuses
        return before(self, flash_attn_version, *args, **kwargs)
    return True


def _check_and_adjust(before, self, attn_implementation, *args, **kwargs):
    if attn_implementation not in _VERSIONS:
        return before(self, attn_implementation, *args, **kwargs)
    own = getattr(self, "_compatible_flash_implementations", None)
    if own is not None and not any(name.startswith(("flash_attention_", "kernels-community/")) for name in own):
        raise ValueError(f"{type(self).__name__} takes {own} alone, whose attention is another than {attn_implementation}'s")
    modeling_flash_attention_utils.lazy_import_flash_attention(attn_implementation)  # not the kernel hub's in its place
    return self.get_correct_attn_implementation(attn_implementation, kwargs.get("is_init_check", False))
