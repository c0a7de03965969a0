# SPDX-License-Identifier: MIT
"""Every architecture of the installed transformers, with a tiny config: attn_implementation='switchyard' and patch give what
eager gives, or the class is refused by name. The list grows with transformers."""

import architectures
import pytest
import switchyard.transformers as sy
import torch
from switchyard.transformers._classes import takes_interface
from transformers import AutoModelForCausalLM, BloomConfig, LlamaConfig

ALL = architectures.all_classes()
LLAMA = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def make(kind, implementation="eager"):
    """A model with random weights, and its inputs, or a skip."""
    cls = ALL[kind]
    torch.manual_seed(3)
    try:
        config = architectures.tiny(cls)
        given = architectures.inputs(cls, config)
        model = cls._from_config(config, attn_implementation=implementation).eval().float()
    except architectures.NoModel as reason:
        pytest.skip(str(reason))
    with torch.no_grad():  # norms are constant at first
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model, given


def first(output):
    """The logits, or what a model returns first."""
    return output.logits if getattr(output, "logits", None) is not None else output[0]


def forward(model, given, mask=None):
    extra = {} if mask is None else {"attention_mask": mask}
    out = first(model(**given, **extra))
    per_token = mask is not None and out.dim() == 3 and out.shape[:2] == mask.shape and not model.config.is_encoder_decoder
    return out * mask[..., None] if per_token else out


def gradients(model, given):
    model.zero_grad()
    forward(model, given).float().square().mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def padded(given, side):
    mask = torch.ones_like(given["input_ids"])
    mask[0, :3] = 0
    return mask if side == "left" else mask.flip(1)


def generated(model, given):
    inputs = {name: tensor for name, tensor in given.items() if not name.startswith("decoder_")}
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "disable_compile": True}
    if "input_ids" in given:
        options["attention_mask"] = padded(given, "left")
    return model.generate(**inputs, **options)


def pieces(model, given):
    """What is compared, by name: functions of a model."""
    out = {"forward": lambda model: forward(model, given), "gradients": lambda model: gradients(model, given)}
    if "input_ids" in given:
        for side in ("left", "right"):
            out[f"padding on the {side}"] = lambda model, side=side: forward(model, given, padded(given, side))
    if model.can_generate() and "input_ids" in given:
        out["generation"] = lambda model: generated(model, given)
    return out


def attempt(function, model):
    torch.manual_seed(7)
    with torch.set_grad_enabled("gradients" in function.__code__.co_names):
        return function(model)


def differs(got, want) -> bool:
    if isinstance(want, dict):
        most = max((gradient.abs().max() for gradient in want.values() if gradient.numel()), default=0.0)
        return got.keys() != want.keys() or any(
            ((got[n] - w).abs() > 2e-4 * most).any() for n, w in want.items())  # fmt: skip
    if got.shape != want.shape or want.numel() == 0:
        return got.shape != want.shape
    if not want.is_floating_point():
        return not torch.equal(got, want)
    return bool((got - want).abs().max() > 1e-4 * max(1.0, want.abs().max()))


def is_finite(result) -> bool:
    return all(tensor.isfinite().all() for tensor in (result.values() if isinstance(result, dict) else [result]))


def wanted(model, given):
    """Eager's results, of what eager computes twice alike; or a skip."""
    out = {}
    for name, function in pieces(model, given).items():
        try:
            want, again = attempt(function, model), attempt(function, model)
        except Exception as problem:  # what eager cannot do with a tiny config
            if name == "forward":
                pytest.skip(f"eager fails on a tiny config: {type(problem).__name__}: {problem}".splitlines()[0][:120])
            continue
        if is_finite(want) and not differs(again, want):
            out[name] = function, want
    if not out:
        pytest.skip("eager's results are not finite, or random")
    return out


@pytest.mark.parametrize("kind", [name for name in ALL if takes_interface(ALL[name])])
def test_equals_eager(kind):
    """Forward, padding, gradients and generation: by attn_implementation, by patch, and unpatched again."""
    model, given = make(kind)
    want = wanted(model, given)
    wrong = []

    def compare(way):
        for name, (function, result) in want.items():
            if differs(attempt(function, model), result):
                wrong.append(f"{name} by {way}")

    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    model.set_attn_implementation("switchyard")
    compare("attn_implementation")
    for config, implementation in before:
        config._attn_implementation_internal = implementation
    sy.patch(model)
    compare("patch")
    assert not wrong
    sy.unpatch(model)
    for function, result in want.values():
        assert not differs(attempt(function, model), result)


def test_bloom_is_refused_in_every_way():
    config = BloomConfig(vocab_size=97, hidden_size=64, n_layer=2, n_head=4)
    message = "BloomForCausalLM takes no attention interface"
    with pytest.raises(ValueError, match=message):
        AutoModelForCausalLM.from_config(config, attn_implementation="switchyard")
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with pytest.raises(ValueError, match=message):
        sy.patch(model)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("kind", [name for name in ALL if not takes_interface(ALL[name])])
def test_classes_without_the_interface_are_refused(kind):
    cls, (model, _) = ALL[kind], make(kind)
    message = f"{cls.__name__} (takes no attention interface|gives its attention .*, which switchyard does not know), so"
    with pytest.raises(ValueError, match=message), torch.device("meta"):
        cls._from_config(model.config, attn_implementation="switchyard")
    model.config._attn_implementation_internal = "eager"
    with pytest.raises(ValueError, match=message):
        sy.patch(model)


def test_report_names_attention():
    """Each layer's, as it is served now: patched, asked for by name, changed behind patch, and a class's own."""
    config = LlamaConfig(**{name: architectures.SIZES[name] for name in LLAMA})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    places = [f"model.layers.{i}.self_attn" for i in range(2)]
    assert [sy.report(model)[place] for place in places] == ["unchanged: its attn_implementation is 'eager'"] * 2
    model.set_attn_implementation("switchyard")
    assert sy.report(model) == dict.fromkeys(places, "attention")
    model.set_attn_implementation("eager")
    sy.patch(model)
    assert [sy.report(model)[place] for place in places] == ["attention, rotary"] * 2
    model.set_attn_implementation("sdpa")
    assert [sy.report(model)[place] for place in places] == ["rotary; unchanged: its attn_implementation is 'sdpa'"] * 2
    bloom = AutoModelForCausalLM.from_config(BloomConfig(vocab_size=97, hidden_size=64, n_layer=1, n_head=4))
    assert sy.report(bloom) == {"transformer.h.0.self_attention": "unchanged: BloomAttention computes attention itself"}
