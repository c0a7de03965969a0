"""attn_implementation='switchyard' for every architecture of the installed transformers: a class that takes no attention
interface is refused by name; one that does and is cheap to make equals eager."""

import time

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, BloomConfig, LlamaConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import switchyard.transformers as sy
from switchyard.transformers._classes import takes_interface

BEGIN, SECONDS = time.monotonic(), 240
TINY = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0}  # fmt: skip
MOST_PARAMETERS = 5_000_000


def names(kind) -> list[str]:
    found = [each for each in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() if isinstance(each, str)]
    classes = {each: getattr(transformers, each, None) for each in found}
    return sorted(n for n, c in classes.items() if isinstance(c, type) and issubclass(c, PreTrainedModel) and takes_interface(c) == kind)


def tiny(name):
    """A small config of a class, or a skip."""
    if time.monotonic() - BEGIN > SECONDS:
        pytest.skip("the time of this file is used up")
    cls = getattr(transformers, name)
    try:
        config = cls.config_class(**TINY)
        with torch.device("meta"):
            size = sum(each.numel() for each in cls._from_config(config, attn_implementation="eager").parameters())
    except Exception as problem:  # noqa: BLE001: each config has its own demands
        pytest.skip(f"no small config: {type(problem).__name__}")
    if size > MOST_PARAMETERS:
        pytest.skip(f"{size} parameters")
    return cls, config


def test_bloom_is_refused_in_every_way():
    config = BloomConfig(vocab_size=97, hidden_size=64, n_layer=2, n_head=4)
    message = "BloomForCausalLM takes no attention interface"
    with pytest.raises(ValueError, match=message):
        AutoModelForCausalLM.from_config(config, attn_implementation="switchyard")
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with pytest.raises(ValueError, match=message):
        sy.patch(model)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", names(False))
def test_classes_without_the_interface_are_refused(name):
    cls, config = tiny(name)
    with pytest.raises(ValueError, match=f"{name} takes no attention interface"), torch.device("meta"):
        cls._from_config(config, attn_implementation="switchyard")


@pytest.mark.parametrize("name", names(True))
def test_classes_with_the_interface_equal_eager(name):
    cls, config = tiny(name)
    ids, mask, found = torch.randint(1, 97, (2, 9)), torch.ones(2, 9, dtype=torch.long), []
    mask[0, :3] = 0
    for implementation in ("eager", "switchyard"):
        torch.manual_seed(3)
        try:
            model = cls._from_config(config, attn_implementation=implementation).eval().float()
            with torch.no_grad():
                out = [model(ids, use_cache=False).logits, model(ids, attention_mask=mask, use_cache=False).logits * mask[..., None]]
        except Exception as problem:  # noqa: BLE001
            if implementation == "switchyard":
                raise
            pytest.skip(f"eager attention fails on a small config: {type(problem).__name__}")
        found.append(out)
    for got, want in zip(found[1], found[0], strict=True):
        if not want.isfinite().all():
            pytest.skip("eager's logits are not finite")
        assert (got - want).abs().max() <= 1e-4 * max(1.0, want.abs().max())


def test_report_names_attention():
    """Each layer's, as it is served now: patched, asked for by name, changed behind patch, and a class's own."""
    model = AutoModelForCausalLM.from_config(LlamaConfig(**TINY), attn_implementation="eager")
    places = [f"model.layers.{i}.self_attn" for i in range(2)]
    assert [sy.report(model)[each] for each in places] == ["unchanged: its attn_implementation is 'eager'"] * 2
    model.set_attn_implementation("switchyard")
    assert sy.report(model) == dict.fromkeys(places, "attention")
    model.set_attn_implementation("eager")
    sy.patch(model)
    assert [sy.report(model)[each] for each in places] == ["attention, rotary"] * 2
    model.set_attn_implementation("sdpa")
    assert [sy.report(model)[each] for each in places] == ["rotary; unchanged: its attn_implementation is 'sdpa'"] * 2
    bloom = AutoModelForCausalLM.from_config(BloomConfig(vocab_size=97, hidden_size=64, n_layer=1, n_head=4))
    assert sy.report(bloom) == {"transformer.h.0.self_attention": "unchanged: BloomAttention computes attention itself"}
