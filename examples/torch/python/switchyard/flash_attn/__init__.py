# SPDX-License-Identifier: MIT
"""flash_attn's functions on Switchyard's kernels: the same arguments, defaults, layouts and results, so that code changes one
import.

    from switchyard.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
    from switchyard.flash_attn.bert_padding import pad_input, unpad_input

They follow flash_attn 2.8, and also take f32 and CPU tensors. Unsupported arguments raise an error that names them.
"""

from ._cache import flash_attn_with_kvcache
from ._functions import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
