# SPDX-License-Identifier: MIT
"""attn_implementation="flash_attention_2" and "flash_attention_3" of transformers on switchyard.flash_attn, on the CPU, against eager."""

import pytest
import switchyard.transformers as sy
import torch
from test_transformers import close
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BloomConfig,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    PreTrainedModel,
    modeling_flash_attention_utils,
)

SMALL = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}  # fmt: skip
CONFIGS = {
    "llama": lambda: LlamaConfig(**SMALL),
    "mistral": lambda: MistralConfig(**SMALL, sliding_window=4),
    "gemma2": lambda: Gemma2Config(**SMALL, head_dim=16, sliding_window=4),
    "bert": lambda: BertConfig(**SMALL),
    # Sinks; transformers prefers other implementations for it, which have them too.
    "gpt_oss": lambda: GptOssConfig(**SMALL, head_dim=16, sliding_window=4, num_local_experts=2, num_experts_per_tok=1),
}


@pytest.fixture(autouse=True)
def served(monkeypatch):
    """For one test: transformers' functions are put back."""
    utils = modeling_flash_attention_utils
    places = ((utils, "_lazy_imports"), (utils, "_loaded_implementation"),
              (PreTrainedModel, "_flash_attn_can_dispatch"),
              (PreTrainedModel, "_check_and_adjust_attn_implementation"))  # fmt: skip
    for owner, name in places:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    sy.serve_flash_attention()
    sy.serve_flash_attention()  # again is nothing


def make(name, implementation):
    torch.manual_seed(3)
    config = CONFIGS[name]()
    if name == "bert":
        return BertForMaskedLM._from_config(config, attn_implementation=implementation).eval()
    model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()
    with torch.no_grad():  # which are 0 else
        for part, parameter in model.named_parameters():
            if part.endswith("sinks"):
                parameter.copy_(torch.linspace(-1, 2, parameter.numel()))
    return model


def results(model, mask):
    logits = model(torch.arange(18).reshape(2, 9) + 5, attention_mask=mask).logits
    logits = logits if mask is None else logits * mask[..., None]
    model.zero_grad()
    logits.square().mean().backward()
    return logits.detach(), [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


VERSIONS = ["flash_attention_2", "flash_attention_3"]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("version", VERSIONS)
def test_equals_eager(name, side, version, counted):
    mask = None if side == "none" else torch.ones(2, 9, dtype=torch.long)
    if mask is not None:
        mask[0, :3] = 0
        mask = mask if side == "left" else mask.flip(1)
    want, want_grads = results(make(name, "eager"), mask)
    model = make(name, version)
    with counted() as mode:
        logits, grads = results(model, mask)
    assert model.config._attn_implementation == version and mode.calls["attention_forward"] == 2
    close(logits, want)
    for mine, theirs in zip(grads, want_grads, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_sequences_packed_by_positions(name):
    ids, positions = torch.randint(1, 97, (1, 12)), torch.cat([torch.arange(5), torch.arange(7)])[None]
    with torch.no_grad():
        got = make(name, "flash_attention_2")(ids, position_ids=positions, use_cache=False).logits
        want = [make(name, "eager")(sequence, use_cache=False).logits for sequence in ids.split([5, 7], 1)]
    close(got, torch.cat(want, 1))


@pytest.mark.parametrize("version", VERSIONS)
def test_generation(version):
    ids = torch.randint(1, 97, (2, 9))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    options = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    want = make("llama", "eager").generate(ids, **options)
    assert torch.equal(make("llama", version).generate(ids, **options), want)


def test_classes_that_do_not_support_it_are_refused():
    with pytest.raises(ValueError, match="BloomForCausalLM does not support Flash Attention 2"):
        AutoModelForCausalLM.from_config(BloomConfig(vocab_size=97, hidden_size=64, n_layer=1, n_head=4),
                                         attn_implementation="flash_attention_2")  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_classes_with_another_attention_are_refused(version, monkeypatch):
    monkeypatch.setattr(LlamaForCausalLM, "_compatible_flash_implementations", ["somebody/sparse"])
    with pytest.raises(ValueError, match=r"LlamaForCausalLM takes \['somebody/sparse'\] alone"):
        make("llama", version)
