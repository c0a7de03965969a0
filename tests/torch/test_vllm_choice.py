# SPDX-License-Identifier: MIT
"""What vLLM's backend serves, what it and its layers refuse, vLLM's choice of it, and the plugin that registers it."""

import sys
from types import ModuleType

import pytest
import torch

pytest.importorskip("vllm.v1.attention.backend", reason="vLLM cannot be imported", exc_type=ImportError)

from switchyard import vllm as plugin
from switchyard.vllm.backend import SwitchyardBackend
from test_vllm import impl
from vllm.platforms.interface import DeviceCapability as capability
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends import registry


def validate(**changes):
    asked = {"head_size": 128, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": 16, "use_mla": False,
             "has_sink": False, "use_sparse": False, "use_mm_prefix": False, "use_per_head_quant_scales": False,
             "device_capability": capability(9, 0), "attn_type": AttentionType.DECODER, **changes}  # fmt: skip
    return "; ".join(SwitchyardBackend.validate_configuration(**asked))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"has_sink": True, "has_sliding_window": True},
        {"kv_cache_dtype": "fp8", "head_size": 64},
        {"kv_cache_dtype": "bfloat16", "block_size": None},
        {"head_size": 40, "dtype": torch.float16, "block_size": 48},
        {"attn_type": AttentionType.ENCODER_ONLY, "device_capability": capability(8, 6)},
    ],
)
def test_configurations_that_are_served(changes):
    assert validate(**changes) == ""


def test_blocks_of_other_sizes_are_split():
    """Into pages that decoding kernels read."""
    from vllm.v1.worker.utils import select_common_block_size

    assert [select_common_block_size(n, [SwitchyardBackend]) for n in (16, 48, 128, 528, 1024)] == [16, 16, 128, 16, 256]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"head_size": 100}, "multiples of 8 up to 256, not 100"),
        ({"head_size": 512}, "not 512"),
        ({"head_size": 40, "kv_cache_dtype": "fp8"}, "multiples of 16 up to 256 with an e4m3 cache, not 40"),
        ({"dtype": torch.float32}, "float16 and bfloat16, not float32"),
        ({"kv_cache_dtype": "fp8_e5m2"}, "fp8 and fp8_e4m3, not fp8_e5m2"),
        ({"kv_cache_dtype": "float16"}, "float16 beside bfloat16"),
        ({"block_size": 24}, "multiples of 16, not 24"),
        ({"device_capability": capability(10, 0)}, "8.x and 9.0, not 10.0"),
        ({"use_mla": True}, "MLA not supported"),
        ({"use_sparse": True}, "sparse not supported"),
        ({"use_mm_prefix": True}, "multimodal"),
        ({"use_non_causal": True}, "non-causal attention not supported"),
        ({"attn_type": AttentionType.ENCODER_DECODER}, "AttentionType.ENCODER_DECODER not supported"),
        ({"use_per_head_quant_scales": True}, "per-head quant scales not supported"),
        ({"use_batch_invariant": True}, "batch invariance not supported"),
        ({"use_dcp": True}, "DCP not supported"),
        ({"use_rswa": True}, "R-SWA not supported"),
        ({"use_adaptive_verification": True}, "device-cpu query lens mismatch not supported"),
    ],
)
def test_configurations_that_are_refused(changes, words):
    assert words in validate(**changes)


def test_choice_on_a_gpu(monkeypatch):
    """By vLLM's CUDA platform, on an H100 that is made up."""
    monkeypatch.setitem(sys.modules, "vllm._C_stable_libtorch", ModuleType("kernels that are not called"))
    monkeypatch.setitem(sys.modules, "vllm.platforms.cuda", None)
    del sys.modules["vllm.platforms.cuda"]
    from vllm.platforms.cuda import NonNvmlCudaPlatform as Cuda
    from vllm.v1.attention.selector import AttentionSelectorConfig

    monkeypatch.setattr(Cuda, "get_device_capability", lambda *_: capability(9, 0))
    custom = registry.AttentionBackendEnum.CUSTOM
    given = AttentionSelectorConfig(head_size=128, dtype=torch.bfloat16, kv_cache_dtype="fp8", block_size=16, has_sink=True)
    try:
        plugin.register()
        assert Cuda.get_attn_backend_cls(custom, given) == plugin.BACKEND
        with pytest.raises(ValueError, match="not valid for this configuration.*up to 256, not 100"):
            Cuda.get_attn_backend_cls(custom, given._replace(head_size=100, kv_cache_dtype="auto"))
    finally:
        custom.clear_override()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"kv_cache_dtype": "fp8_e5m2"}, "not fp8_e5m2"),
        ({"attn_type": AttentionType.ENCODER_DECODER}, "no attention of the type"),
        ({"use_alibi_sqrt": True}, "it does not know use_alibi_sqrt"),
    ],
)
def test_layers_refuse_too(options, words):
    """vLLM's CPU platform asks no backend what it serves."""
    with pytest.raises(NotImplementedError, match=words):
        impl(**options)


def test_types_of_models_are_refused_when_weights_are_loaded():
    with pytest.raises(NotImplementedError, match="float16 and bfloat16, not float32"):
        impl().process_weights_after_loading(torch.float32)
    with pytest.raises(NotImplementedError, match="float16 beside bfloat16"):
        impl("float16").process_weights_after_loading(torch.bfloat16)
    impl(use_alibi_sqrt=False).process_weights_after_loading(torch.bfloat16)


def test_plugin(monkeypatch):
    custom, own = registry.AttentionBackendEnum.CUSTOM, registry.AttentionBackendEnum.CPU_ATTN
    try:
        monkeypatch.delenv("SWITCHYARD_VLLM_CPU", raising=False)
        plugin.register()
        plugin.register()  # vLLM may call it more than once
        assert custom.get_class() is SwitchyardBackend and not own.is_overridden()
        assert SwitchyardBackend.get_name() == custom.name
        monkeypatch.setenv("SWITCHYARD_VLLM_CPU", "1")
        plugin.register()
        assert own.get_class() is SwitchyardBackend
    finally:
        custom.clear_override()
        own.clear_override()


def test_plugin_leaves_others_alone(caplog, monkeypatch):
    """No error in its function may end vLLM."""
    custom = registry.AttentionBackendEnum.CUSTOM
    try:
        registry.register_backend(custom, "another.Backend")
        plugin.register()
        assert custom.get_path() == "another.Backend" and "CUSTOM, which is another.Backend" in caplog.text
    finally:
        custom.clear_override()
    monkeypatch.setitem(sys.modules, registry.__name__, None)
    plugin.register()
    assert "no registry of backends" in caplog.text and not custom.is_overridden()
