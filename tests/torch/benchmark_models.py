# SPDX-License-Identifier: MIT
"""What benchmark.py measures: models of known shapes with random weights, and the peers that run them."""

import contextlib
import copy
import importlib

import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM, LlamaConfig, Qwen3Config

PREFILL, TRAINING, BATCHES, CONTEXT = (512, 2048, 8192, 32768), 4096, (1, 8, 32), 4096


def configurations(small: bool) -> dict:
    """Llama-3.1-8B's and Qwen3-4B's shape with 8 layers; `small`: of two layers, for a test on a CPU."""
    if small:
        tiny = {"vocab_size": 1024, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512}  # fmt: skip
        return {"llama": LlamaConfig(**tiny), "qwen3": Qwen3Config(**tiny)}
    return {
        "llama": LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=8,
                             num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=131072,
                             rms_norm_eps=1e-5),
        "qwen3": Qwen3Config(vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=8,
                             num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
    }  # fmt: skip


def build(config, implementation: str, device: torch.device):
    """A model in bf16 on a GPU, in f32 on a CPU. The weights of one configuration are the same every time."""
    torch.manual_seed(0)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    with device:
        return AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation, dtype=dtype).eval()


@contextlib.contextmanager
def restored_module(config):
    """Undoes what a peer does to transformers' module of a model: Liger replaces its functions and classes."""
    module = importlib.import_module(f"transformers.models.{config.model_type}.modeling_{config.model_type}")
    before = dict(vars(module))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def with_sdpa(config, device):
    return build(config, "sdpa", device)


def with_ours(config, device):
    import switchyard.transformers

    return switchyard.transformers.patch(build(config, "sdpa", device))


def with_merged(config, device):
    """Ours, where feed-forward blocks and Llama's attention have fewer matrix products."""
    import switchyard.transformers

    return switchyard.transformers.patch(build(config, "sdpa", device), merge_projections=True)


def with_liger(config, device):
    import liger_kernel.transformers as liger

    model = build(config, "sdpa", device)
    apply = getattr(liger, f"apply_liger_kernel_to_{config.model_type}")
    apply(rope=True, rms_norm=True, swiglu=True, cross_entropy=False, fused_linear_cross_entropy=False, model=model)
    return model


def with_is_causal(config, device):
    """SDPA with is_causal and no mask: what torch.compile can serve best."""

    def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **kwargs):
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                               enable_gqa=True)  # fmt: skip
        return out.transpose(1, 2), None

    return _without_mask("benchmark_is_causal", attention, config, device)


def with_flash_4(config, device):
    from flash_attn.cute import flash_attn_func

    def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **kwargs):
        rows = [tensor.transpose(1, 2) for tensor in (query, key, value)]
        out = flash_attn_func(*rows, softmax_scale=scaling, causal=True)
        return out[0] if isinstance(out, tuple) else out, None

    return _without_mask("benchmark_flash_4", attention, config, device)


def _without_mask(name: str, attention, config, device):
    """A model with an attention that knows no mask: for whole sequences without padding."""
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, lambda *args, **kwargs: None)
    return build(config, name, device)


# name: how the model is made, whether it is compiled, and whether it can decode from a static cache
PEERS = {
    "sdpa": (with_sdpa, False, True),
    "compile": (with_sdpa, True, True),
    "compile is_causal": (with_is_causal, True, False),
    "liger": (with_liger, False, True),
    "flash 4": (with_flash_4, False, False),
    "switchyard": (with_ours, False, True),
    "switchyard merged": (with_merged, False, True),
    "switchyard compile": (with_ours, True, True),
}
