# SPDX-License-Identifier: MIT
"""patch recognises modules by what they compute: families that it knows no name of, and modules that look alike but are not."""

import collections
import re

import pytest
import switchyard.transformers as sy
import torch
import transformers
from architectures import SIZES
from switchyard.transformers import _recognize
from test_transformers import close
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm

LAYERS = 2
SMALL = {key: SIZES[key] for key in (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "pad_token_id")}  # fmt: skip
# What a forward pass calls besides an attention a layer: norms, rotary embeddings and gated activations.
FAMILIES = {
    "Mistral": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Qwen2": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Phi3": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Gemma": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Gemma2": ("rms_norm", 4 * LAYERS + 1, LAYERS, LAYERS),
    "Mixtral": ("rms_norm", 2 * LAYERS + 1, LAYERS, 0),
    "Glm": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Glm4": ("rms_norm", 4 * LAYERS + 1, LAYERS, LAYERS),
    "Olmo": ("layer_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Olmo2": ("rms_norm", 4 * LAYERS + 1, LAYERS, LAYERS),
    "Granite": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Starcoder2": ("layer_norm", 2 * LAYERS + 1, LAYERS, 0),
    "SmolLM3": ("rms_norm", 2 * LAYERS + 1, LAYERS, LAYERS),
    "Cohere": ("layer_norm", LAYERS + 1, LAYERS, LAYERS),
    "Cohere2": ("layer_norm", LAYERS + 1, LAYERS, LAYERS),
    "GPT2": ("layer_norm", 2 * LAYERS + 1, 0, 0),
    "Bert": ("layer_norm", 2 * LAYERS + 2, 0, 0),
    "Roberta": ("layer_norm", 2 * LAYERS + 2, 0, 0),
    "XLMRoberta": ("layer_norm", 2 * LAYERS + 2, 0, 0),
    "ModernBert": ("layer_norm", 2 * LAYERS + 2, LAYERS, LAYERS),
}


def make(name):
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**SMALL)
    is_encoder = name in ("Bert", "Roberta", "XLMRoberta", "ModernBert")
    auto = transformers.AutoModelForMaskedLM if is_encoder else AutoModelForCausalLM
    return auto.from_config(config, attn_implementation="eager").eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_calls_us(name, counted):
    norm, norms, rotaries, gated = FAMILIES[name]
    model, ids = make(name), torch.randint(5, 97, (2, 9))
    options = {"use_cache": False} if hasattr(model.config, "use_cache") else {}
    with torch.no_grad():
        want = model(ids, **options).logits
        sy.patch(model)
        with counted() as mode:
            close(model(ids, **options).logits, want, 1e-4)
    ours = {key: count for key, count in mode.calls.items() if "::" not in key}
    assert ours == {key: count for key, count in {
        "attention_forward": LAYERS, norm: norms, "rotary": rotaries, "gated_activation": gated}.items() if count}  # fmt: skip


class Doubled(LlamaRMSNorm):
    def forward(self, hidden_states):
        return 2.0 * super().forward(hidden_states)


class Centred(LlamaRMSNorm):
    """Around 1, as Gemma's, by another name of its epsilon."""

    def __init__(self, width):
        torch.nn.Module.__init__(self)
        self.weight = torch.nn.Parameter(torch.zeros(width))
        self.norm_eps = 1e-3

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.norm_eps) * (1 + self.weight)


class Grouped(torch.nn.Module):
    """Over halves of a row."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(8)), 1e-6

    def forward(self, x):
        halves = x.unflatten(-1, (2, 4))
        return (halves * torch.rsqrt(halves.pow(2).mean(-1, keepdim=True) + self.eps)).flatten(-2) * self.weight


class Rising(LlamaRMSNorm):
    """f32 from any input, as some norms are."""

    def forward(self, hidden_states):
        return super().forward(hidden_states.float())


class WithGate(LlamaRMSNorm):
    def forward(self, hidden_states, gate=None):
        return super().forward(hidden_states)


def replaced():
    out = LlamaRMSNorm(8)
    out.forward = lambda x: x
    return out


NORMS = {
    "llama": (lambda: LlamaRMSNorm(8), ("rms_norm", 1e-6, 0.0)),
    "centred": (lambda: Centred(8), ("rms_norm", 1e-3, 1.0)),
    "torch's": (lambda: torch.nn.RMSNorm(8, eps=1e-4), ("rms_norm", 1e-4, 0.0)),
    "no weight": (lambda: torch.nn.RMSNorm(8, eps=1e-4, elementwise_affine=False), ("rms_norm", 1e-4, 0.0)),
    "layer": (lambda: torch.nn.LayerNorm(8), ("layer_norm", 1e-5, 0.0)),
    "layer without weights": (lambda: torch.nn.LayerNorm(8, elementwise_affine=False), ("layer_norm", 1e-5, 0.0)),
    "an epsilon of the type": (lambda: torch.nn.RMSNorm(8), "neither RMSNorm's nor LayerNorm's"),
    "two dimensions": (lambda: torch.nn.LayerNorm((4, 8)), "more than one dimension"),
    "doubled": (lambda: Doubled(8), "neither RMSNorm's nor LayerNorm's"),
    "grouped": (Grouped, "neither RMSNorm's nor LayerNorm's"),
    "rising": (lambda: Rising(8), "half precision differs"),
    "with a gate": (lambda: WithGate(8), "takes hidden_states, gate"),
    "replaced": (replaced, "its forward was replaced"),
    "groups": (lambda: torch.nn.GroupNorm(2, 8), "its forward fails on a probe|neither"),
    "a linear layer": (lambda: torch.nn.Linear(8, 8), None),
    "an activation": (torch.nn.SiLU, None),
}


def agrees(found, want):
    if isinstance(want, str):
        return isinstance(found, str) and re.search(want, found) is not None
    return found == want


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    build, want = NORMS[name]
    found = _recognize.norm_of(build())
    if isinstance(found, _recognize.Norm):
        found = found.kind, found.epsilon, found.offset
    assert agrees(found, want), found


class Block(torch.nn.Module):
    def __init__(self, function, sizes=(16, 24), dropout=0.0):
        super().__init__()
        outer, inner = sizes
        self.b, self.a, self.c = (torch.nn.Linear(*size) for size in ((outer, inner), (outer, inner), (inner, outer)))
        self.function, self.drop = function, torch.nn.Dropout(dropout)

    def forward(self, x):
        return self.c(self.drop(self.function(self.a(x)) * self.b(x)))


class Packed(torch.nn.Module):
    def __init__(self, gate_first):
        super().__init__()
        self.both, self.down, self.inner, self.gate_first = torch.nn.Linear(8, 48), torch.nn.Linear(24, 8), 24, gate_first

    def forward(self, x):
        a, b = self.both(x).split(self.inner, -1)
        return self.down(torch.nn.functional.silu(a) * b if self.gate_first else a * torch.nn.functional.silu(b))


F = torch.nn.functional
GATED = {
    "silu": (lambda: Block(F.silu), ("silu", "a", "b", "c")),
    "square": (lambda: Block(F.silu, (16, 16)), ("silu", "a", "b", "c")),
    "gelu": (lambda: Block(F.gelu), ("gelu", "a", "b", "c")),
    "gelu_tanh": (lambda: Block(torch.nn.GELU("tanh")), ("gelu_tanh", "a", "b", "c")),
    "relu": (lambda: Block(F.relu), "no gated block's with silu, gelu, gelu_tanh"),
    "dropout": (lambda: Block(F.silu, dropout=0.1), "drops elements in training"),
    "packed": (lambda: Packed(True), ("silu", "both", None, "down")),
    "packed, up first": (lambda: Packed(False), "no gated block's"),
    "two layers": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8)), None),
}


@pytest.mark.parametrize("name", GATED)
def test_gated_blocks(name):
    build, want = GATED[name]
    found = _recognize.gated_of(build())
    if isinstance(found, _recognize.Gated):
        found = found.function, found.gate, found.up, found.down
    assert agrees(found, want), found


class Scaling(LlamaMLP):
    """As a model that a user changed."""

    def forward(self, x):
        return 0.5 * super().forward(x)


def test_what_differs_is_left_alone_with_a_reason():
    model, ids = make("Mistral"), torch.randint(1, 97, (2, 9))
    model.model.layers[1].mlp.__class__ = Scaling
    model.model.layers[0].input_layernorm.__class__ = Doubled
    attention = model.model.layers[1].self_attn
    attention.forward = lambda *args, **kwargs: LlamaAttention.forward(attention, *args, **kwargs)
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        close(sy.patch(model)(ids, use_cache=False).logits, want)
    report = sy.report(model)
    assert report["model.layers.1.mlp"].startswith("unchanged: its result on a probe is no gated block's")
    assert report["model.layers.0.input_layernorm"].startswith("unchanged: its result on a probe is neither")
    assert report["model.layers.1.self_attn"] == "attention; unchanged: its forward was replaced"
    assert report["model.layers.0.self_attn"] == "attention, rotary"
    assert "rotary tables" not in report.values()  # which the second attention reads as transformers makes them


def test_patching_changes_no_generator_and_no_weight():
    model = make("Qwen2")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    state = torch.get_rng_state()
    sy.patch(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    sy.unpatch(model)
    assert not any("_switchyard" in attribute for module in model.modules() for attribute in vars(module))


def test_norms_whose_elements_are_elsewhere():
    """DeepSpeed leaves parameters of no elements between forward passes; accelerate leaves them on meta."""
    norm = LlamaRMSNorm(8)
    norm.weight.data = torch.empty(0)
    assert _recognize.norm_of(norm) == _recognize.norm_of(LlamaRMSNorm(8).to("meta")) == _recognize.Norm("rms_norm", 1e-6)


@torch.autocast("cpu", torch.bfloat16)
def test_patching_under_autocast():
    """Modules are compared in f32 there, too."""
    assert sy.report(sy.patch(make("Mistral")))["model.layers.0.mlp"] == "gated_activation"


def test_each_kind_is_probed_once(monkeypatch):
    """Layers share what was recognised, so that patching a deep model costs what patching a shallow one does."""
    calls = collections.Counter()
    plain = _recognize.norm_of
    monkeypatch.setattr(_recognize, "norm_of", lambda module: calls.update([type(module).__name__]) or plain(module))
    torch.manual_seed(3)
    sy.patch(AutoModelForCausalLM.from_config(transformers.MistralConfig(**{**SMALL, "num_hidden_layers": 6})))
    assert calls["MistralRMSNorm"] == 1
