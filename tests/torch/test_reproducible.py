# SPDX-License-Identifier: MIT
"""reproducible(): calls that are limited to a class of kernels, and the bits that they give then."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import switchyard.torch as sy
import torch

HEADS, KV_HEADS, KEYS, DIM = 6, 2, 700, 64


@pytest.fixture
def attention_class():
    """A class of attention that this processor has."""
    q = torch.zeros(1, 1, 1, DIM, dtype=torch.bfloat16)
    found = {one["reproducible"] for one in sy.explain(sy.attention_decode, q, q, q)["candidates"] if one["admissible"]}
    return min(name for name in found if name.endswith("_tile_n128"))


def draw(dtype=torch.bfloat16):
    q = torch.randn(3, HEADS, KEYS, DIM).to(dtype)
    k, v = (torch.randn(3, KV_HEADS, KEYS, DIM).to(dtype) for _ in range(2))
    return q, k, v


def test_a_query_has_the_same_bits_in_every_call(attention_class):
    q, k, v = draw()
    used = torch.tensor([KEYS, 31, 400], dtype=torch.int32)
    with sy.reproducible(attention_class):
        prompt, prompt_lse = sy.attention(q[:1], k[:1], v[:1], causal=True, return_lse=True)
        alone, alone_lse = sy.attention_decode(q[:1, :, -1:], k[:1], v[:1], return_lse=True)
        several = sy.attention_decode(q[:1, :, -16:], k[:1], v[:1])
        batch = sy.attention_decode(q[:, :, -1:], k, v, seqused_k=used)
        cu = torch.tensor([0, 5, 5 + KEYS], dtype=torch.int32)
        packed = [torch.cat([x[1, :, :5], x[0]], 1).transpose(0, 1) for x in (q, k, v)]
        varlen = sy.attention_varlen(*packed, cu, cu, KEYS, KEYS, causal=True)
    assert torch.equal(prompt[:, :, -1:], alone) and torch.equal(prompt_lse[:, :, -1:], alone_lse)
    assert torch.equal(prompt[:, :, -16:], several)
    assert torch.equal(alone, batch[:1])
    assert torch.equal(varlen[5:].transpose(0, 1), prompt[0])
    torch.testing.assert_close(prompt, sy.attention(q[:1], k[:1], v[:1], causal=True), atol=0.02, rtol=0.02)


def test_the_class_decides_the_kernel(attention_class):
    q, k, v = draw()
    one = q[:, :, -1:]
    free = sy.explain(sy.attention_decode, one, k, v)
    assert any(candidate["admissible"] and not candidate["reproducible"] for candidate in free["candidates"])
    with sy.reproducible(attention_class):
        why = sy.explain(sy.attention_decode, one, k, v)
        with sy.reproducible(""):
            assert sy.explain(sy.attention_decode, one, k, v)["variant"] == free["variant"]
        assert sy.explain(sy.attention_decode, one, k, v)["variant"] == why["variant"]
    assert why["reproducible"] == attention_class
    assert all(candidate["reproducible"] == attention_class for candidate in why["candidates"] if candidate["admissible"])
    assert sy.explain(sy.attention_decode, one, k, v)["variant"] == free["variant"]


def test_a_class_that_does_not_exist_is_an_error_that_names_those_that_do(attention_class):
    q, k, v = draw()
    with sy.reproducible("batch_invariantly"), pytest.raises(RuntimeError, match=r"switchyard\.302") as raised:
        sy.attention_decode(q[:, :, -1:], k, v)
    assert "reproducible classes that serve it: " in str(raised.value) and attention_class in str(raised.value)
    sy.attention_decode(q[:, :, -1:], k, v)  # not limited any more


def test_operators_that_do_not_exist_are_refused_and_limit_nothing(attention_class):
    for classes, error in ({"attention_varlen": attention_class}, ValueError), ({"softmax": None}, AttributeError):
        with pytest.raises(error), sy.reproducible("none of them", **classes):
            pass
        sy.attention_decode(*(x[:, :, -1:] for x in draw()))


def test_other_operators_have_classes_by_name(attention_class):
    x = torch.randn(4, 64)
    with sy.reproducible(attention_class):
        sy.softmax(x)  # not limited
    with sy.reproducible(softmax="none of them"), pytest.raises(RuntimeError, match=r"switchyard\.302"):
        sy.softmax(x)
    name = attention_class.split("_")[0]
    with sy.reproducible(softmax=name):
        assert sy.explain(sy.softmax, x)["reproducible"] == name
        assert torch.equal(sy.softmax(x)[2], sy.softmax(x[2]))


def test_other_threads_are_not_limited(attention_class):
    q, k, v = draw()
    seen = {}
    with sy.reproducible("none of them"):
        thread = threading.Thread(target=lambda: seen.update(out=sy.attention(q, k, v)))
        thread.start()
        thread.join()
    assert torch.equal(seen["out"], sy.attention(q, k, v))


def test_compiled_functions_are_limited_when_they_run(attention_class):
    q, k, v = draw()
    compiled = torch.compile(lambda q, k, v: sy.attention_decode(q, k, v), backend="eager", fullgraph=True)
    with sy.reproducible(attention_class):
        assert torch.equal(compiled(q[:1, :, -1:], k[:1], v[:1]), sy.attention(q[:1], k[:1], v[:1], causal=True)[:, :, -1:])
    with sy.reproducible("none of them"), pytest.raises(RuntimeError, match=r"switchyard\.302"):
        compiled(q[:1, :, -1:], k[:1], v[:1])


def test_the_benchmark_times_both_choices(tmp_path):
    """Small calls, on the CPU."""
    out = tmp_path / "lines.jsonl"
    command = [sys.executable, Path(__file__).parent / "benchmark_reproducible.py", "--out", out, "--rounds", "2"]

    def run(*more):
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run([*command, *more], check=True, capture_output=True, text=True, env=hidden).stdout

    assert run().splitlines()[-1].startswith("3 calls: ")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["call"].split(",")[0] for line in lines] == ["decode", "prompt", "packed prompt"]
    for line in lines:
        assert line["free us"] > 0 and line["class us"] > 0 and line["difference"] < 0.05
        assert line["class"].endswith("_tile_n128")
    assert run("--budget-s", "0").count("for want of time") == 3
