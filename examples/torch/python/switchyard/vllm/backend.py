# SPDX-License-Identifier: MIT
"""What the backend serves. vLLM asks before it builds layers; the layers ask again, since its CPU platform does not."""

import torch
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionBackend, AttentionType

_TYPES = (torch.float16, torch.bfloat16)
_NARROW = ("fp8", "fp8_e4m3")
_OWN_TYPE = {"float16": torch.float16, "bfloat16": torch.bfloat16}
ATTENTION_TYPES = (AttentionType.DECODER, AttentionType.ENCODER, AttentionType.ENCODER_ONLY)
_MAX_COLUMNS = 256
_PAGES = [16, 32, 64, 128, 256]  # the fastest decoding kernels read pages of powers of two


def is_narrow(cache_type: str | None) -> bool:
    """Whether the cache holds e4m3."""
    return cache_type in _NARROW


def _columns(narrow: bool) -> int:
    return 16 if narrow else 8


def wrong_head_size(head_size: int, cache_type: str | None) -> str | None:
    step = _columns(is_narrow(cache_type))
    if head_size % step == 0 and 0 < head_size <= _MAX_COLUMNS:
        return None
    cache = " with an e4m3 cache" if step == 16 else ""
    return f"Switchyard serves head sizes that are multiples of {step} up to {_MAX_COLUMNS}{cache}, not {head_size}"


def wrong_type(dtype: torch.dtype) -> str | None:
    return None if dtype in _TYPES else f"Switchyard serves float16 and bfloat16, not {str(dtype).removeprefix('torch.')}"


def wrong_cache_type(dtype: torch.dtype | None, cache_type: str | None) -> str | None:
    if cache_type is None or cache_type == "auto":
        return None
    if cache_type in _OWN_TYPE:
        if dtype in (None, _OWN_TYPE[cache_type]):
            return None
        return f"Switchyard's cache has the model's type or e4m3: {cache_type} beside {str(dtype).removeprefix('torch.')}"
    if cache_type not in _NARROW:
        return f"Switchyard serves caches of the types auto, float16, bfloat16, fp8 and fp8_e4m3, not {cache_type}"
    if current_platform.fp8_dtype() != torch.float8_e4m3fn:
        return f"Switchyard serves e4m3 caches as float8_e4m3fn, not {current_platform.fp8_dtype()}"
    return None


def wrong_block_size(block_size: int | None) -> str | None:
    if block_size is None or block_size % _PAGES[0] == 0:
        return None
    return f"Switchyard serves block sizes that are multiples of {_PAGES[0]}, not {block_size}"


def wrong_capability(capability) -> str | None:
    if capability is None or capability.major == 8 or tuple(capability) == (9, 0):
        return None
    return f"Switchyard's attention has kernels for compute capabilities 8.x and 9.0, not {capability.as_version_str()}"


class SwitchyardBackend(AttentionBackend):
    """Attention of decoders over pages, and of encoders, in f16 and bf16, with caches of that type or e4m3.

    Every cache layout is accepted. validate_configuration rejects what is not served: latent attention (MLA), cross
    attention, non-causal attention in decoders, sparse attention, bidirectional image prefixes, R-SWA, context
    parallelism, scales per head, batch invariance.
    """

    supported_dtypes = list(_TYPES)
    supported_kv_cache_dtypes = ["auto", *_OWN_TYPE, *_NARROW]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        from .layer import SwitchyardImpl

        return SwitchyardImpl

    @staticmethod
    def get_builder_cls():
        from .metadata import SwitchyardMetadataBuilder

        return SwitchyardMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        """vLLM splits blocks of other sizes into the largest of these that divides them."""
        return _PAGES

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return wrong_head_size(head_size, None) is None

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype) -> bool:
        return wrong_cache_type(None, kv_cache_dtype) is None

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in ATTENTION_TYPES

    @classmethod
    def supports_compute_capability(cls, capability) -> bool:
        return not current_platform.is_rocm() and wrong_capability(capability) is None

    @classmethod
    def supports_device_cpu_query_lens_mismatch(cls) -> bool:
        return False  # decodes are told apart by the lengths on the host

    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, use_mm_prefix,
                             device_capability):  # fmt: skip
        """Names the unsupported values, which vLLM's own reasons do not."""
        on_rocm = "Switchyard's backend for vLLM was never run on ROCm" if current_platform.is_rocm() else None
        wrong = (wrong_head_size(head_size, kv_cache_dtype), wrong_type(dtype), wrong_cache_type(dtype, kv_cache_dtype),
                 wrong_block_size(block_size), on_rocm or wrong_capability(device_capability))  # fmt: skip
        return "; ".join(filter(None, wrong)) or None
