# SPDX-License-Identifier: MIT
"""Switchyard's operators as PyTorch ops.

Each function is one op of `torch.ops.switchyard`: functional, with a fake kernel and, where it has a gradient,
autograd. A call that no kernel serves raises RuntimeError `[switchyard.302]`, which names the nearest kernels and
what excludes them; nothing falls back to another implementation.
"""

from . import _fake  # noqa: F401 (registers fake kernels)
from ._attention import attention, attention_decode, attention_dropout_mask, attention_varlen
from ._block_mask import BlockMaskLists, prepare_block_mask
from ._explain import check, explain, generation, prepare, reload
from ._reproducible import reproducible
from ._rotary import rotary, rotary_cache
from ._rows import gated_activation, layer_norm, rms_norm, softmax

__all__ = [
    "BlockMaskLists",
    "attention",
    "attention_decode",
    "attention_dropout_mask",
    "attention_varlen",
    "check",
    "explain",
    "gated_activation",
    "generation",
    "layer_norm",
    "prepare",
    "prepare_block_mask",
    "reload",
    "reproducible",
    "rms_norm",
    "rotary",
    "rotary_cache",
    "softmax",
]
