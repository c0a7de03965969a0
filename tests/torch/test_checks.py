# SPDX-License-Identifier: MIT
"""Illegal numbers in tensors of indices: refused on the CPU, before anything is read or written there, and in checked mode on a
GPU as well. Without that mode a GPU's calls do not wait for these numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import switchyard.flash_attn as fa
import switchyard.torch as sy
import torch

GPU = torch.cuda.is_available()


def cases(device):
    """The calls, each with what is said of it."""

    def ints(*numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=device)

    def random(*shape):
        return torch.randn(shape, dtype=torch.bfloat16, device=device)

    q, k = random(12, 4, 64), random(12, 2, 64)
    good = ints(0, 5, 12)
    step, pages = random(2, 4, 1, 64), random(6, 2, 16, 64).transpose(1, 2)
    table = ints(5, 1, 0, 2).view(2, 2)
    cos = torch.ones(8, 32, device=device)
    x = random(1, 2, 4, 64)

    def packed(cu_q, cu_k=good):
        return lambda: sy.attention_varlen(q, k, k, cu_q, cu_k, 7, 7, causal=True)

    def paged(table, used):
        return lambda: sy.attention_decode(step, pages, pages, seqused_k=used, block_table=table)

    def placed(*positions):
        return lambda: sy.rotary(x, None, cos, cos, positions=torch.tensor([positions], device=device))

    return {
        "falling": (packed(ints(0, 7, 5)), "cu_seqlens_q[2] is 5, less than 7 before it: the numbers must not fall"),
        "not from 0": (packed(ints(1, 5, 12)), "cu_seqlens_q[0] is 1: it must be 0"),
        "too many": (packed(ints(0, 6, 13)), "cu_seqlens_q[2] is 13, but q has 12 tokens"),
        "far too many": (packed(good, ints(0, 5, 2**30)), "cu_seqlens_k[2] is 1073741824"),
        "too long": (packed(ints(0, 1, 12)), "cu_seqlens_q[2] is 12: sequence 1 has 11 tokens, but seqlen_q, the longest, is 7"),
        "no page": (paged(ints(5, 6, 0, 2).view(2, 2), ints(20, 32)), "block_table[0][1] is 6: it must be at least 0 and below 6"),
        "negative page": (paged(ints(5, 1, 0, -1).view(2, 2), ints(20, 32)), "block_table[1][1] is -1"),
        "more keys than pages": (paged(table, ints(33, 32)), "seqused_k[0] is 33"),
        "negative keys": (paged(table, ints(20, -1)), "seqused_k[1] is -1"),
        "position": (placed(0, 1, 8, 3), "positions[2] is 8: it must be at least 0 and below 8"),
        "negative position": (placed(0, 1, 2, -3), "positions[3] is -3"),
        "flash_attn": (
            lambda: fa.flash_attn_varlen_func(q, k, k, ints(0, 7, 5), good, 7, 7),
            "cu_seqlens_q[2] is 5, less than 7 before it",
        ),
    }  # fmt: skip


NAMES = list(cases("cpu"))


@pytest.mark.parametrize("name", NAMES)
def test_on_the_cpu(name):
    call, said = cases("cpu")[name]
    for _ in range(2):  # a new problem, and one that was met
        with pytest.raises(RuntimeError) as refused:
            call()
        assert str(refused.value).startswith("[switchyard.301] ") and said in str(refused.value)


@pytest.mark.parametrize("device", ["cpu", "cuda"] if GPU else ["cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_one_call(name, device):
    call, said = cases(device)[name]
    with pytest.raises(RuntimeError) as refused:
        sy.check(call)
    number = 307 if device == "cuda" else 301
    assert str(refused.value).startswith(f"[switchyard.{number}] ") and said in str(refused.value)


def test_a_checked_call_does_not_run():
    q, kv = torch.randn(3, 4, 64).bfloat16(), torch.randn(3, 2, 64).bfloat16()
    cache, table, positions = torch.zeros(2, 16, 2, 64).bfloat16(), torch.full((8, 32), 0.5), torch.arange(3)
    given = (q, kv, kv, cache, cache.clone(), table, table, positions)
    before = [tensor.clone() for tensor in given]
    slots = torch.tensor([1, 5, 9])
    assert sy.check(sy.rotary_cache, *given, slots) is None
    assert all(map(torch.equal, given, before))
    with pytest.raises(RuntimeError, match=r"slots\[1\] is 32"):
        sy.check(sy.rotary_cache, *given, torch.tensor([1, 32, 9]))
    sy.rotary_cache(*given, slots)
    assert not torch.equal(q, before[0]) and not torch.equal(cache, before[3])


def in_checked_mode(text):
    """A process of its own: the variable is read when the first op runs."""
    program = "import sys; sys.path.insert(0, sys.argv[1])\n" + text
    done = subprocess.run([sys.executable, "-c", program, str(Path(__file__).parent)], env={**os.environ, "SWITCHYARD_CHECK": "1"}, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


ALL = """
import torch, test_checks
device = "cuda" if torch.cuda.is_available() else "cpu"
number = 307 if device == "cuda" else 301
for name, (call, said) in test_checks.cases(device).items():
    for _ in range(2):
        try:
            call()
        except RuntimeError as refused:
            text = str(refused)
            assert text.startswith(f"[switchyard.{number}] ") and said in text, text
        else:
            raise SystemExit(name + " was launched")
q = torch.randn(12, 4, 64, device=device, dtype=torch.bfloat16)
cu = torch.tensor([0, 5, 12], device=device, dtype=torch.int32)
test_checks.sy.attention_varlen(q, q, q, cu, cu, 7, 7)
print("checked", len(test_checks.NAMES))
"""


def test_in_checked_mode():
    assert in_checked_mode(ALL).stdout == f"checked {len(NAMES)}\n"


CAPTURED = """
import torch, switchyard.torch as sy
q = torch.randn(12, 4, 64, device="cuda", dtype=torch.bfloat16)
cu = torch.tensor([0, 5, 12], device="cuda", dtype=torch.int32)
want = sy.attention_varlen(q, q, q, cu, cu, 7, 7)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = [sy.attention_varlen(q, q, q, cu, cu, 7, 7) for _ in range(2)][1]
graph.replay()
assert torch.equal(out, want)
"""


@pytest.mark.skipif(not GPU, reason="no GPU")
def test_a_captured_call_is_not_checked_and_says_so():
    said = "attention_forward: calls that are captured into a graph are not checked"
    assert in_checked_mode(CAPTURED).stderr.count(said) == 1
