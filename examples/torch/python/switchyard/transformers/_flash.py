# SPDX-License-Identifier: MIT
"""transformers' own path to flash_attn, on switchyard.flash_attn: for models that take attn_implementation="flash_attention_2"
alone, and for what transformers prepares for that name, such as sequences packed by positions."""

import functools

from transformers import PreTrainedModel, modeling_flash_attention_utils

from .. import flash_attn
from ..flash_attn.bert_padding import pad_input, unpad_input

_NAME, _VERSION = "flash_attention_2", 2
_FUNCTIONS = (flash_attn.flash_attn_func, flash_attn.flash_attn_varlen_func, flash_attn.flash_attn_with_kvcache, pad_input,
              unpad_input)  # fmt: skip
_SERVED = "_switchyard_serves"


def serve_flash_attention() -> None:
    """Makes attn_implementation="flash_attention_2" Switchyard, also where flash_attn is installed, and on the CPU.

    For the whole process, and before models are made. transformers refuses classes that say that they do not support flash
    attention, as ever.
    """
    utils = modeling_flash_attention_utils
    if hasattr(utils._lazy_imports, _SERVED):
        return
    for owner, name, ours in ((utils, "_lazy_imports", _imports), (PreTrainedModel, "_flash_attn_can_dispatch", _can_dispatch),
                              (PreTrainedModel, "_check_and_adjust_attn_implementation", _check_and_adjust)):  # fmt: skip
        setattr(owner, name, _around(getattr(owner, name), ours))
    if utils._loaded_implementation == _NAME:  # another package's
        utils._loaded_implementation = None


def _around(before, ours):
    @functools.wraps(before)
    def function(*args, **kwargs):
        return ours(before, *args, **kwargs)

    setattr(function, _SERVED, True)
    return function


def _imports(before, implementation, *args, **kwargs):
    return _FUNCTIONS if implementation == _NAME else before(implementation, *args, **kwargs)


def _can_dispatch(before, self, flash_attn_version, *args, **kwargs):
    if flash_attn_version != _VERSION or not self._supports_flash_attn:  # which it refuses
        return before(self, flash_attn_version, *args, **kwargs)
    return True


def _check_and_adjust(before, self, attn_implementation, *args, **kwargs):
    if attn_implementation != _NAME:
        return before(self, attn_implementation, *args, **kwargs)
    modeling_flash_attention_utils.lazy_import_flash_attention(_NAME)  # not the kernel hub's in its place
    return self.get_correct_attn_implementation(_NAME, kwargs.get("is_init_check", False))
