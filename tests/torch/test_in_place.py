# SPDX-License-Identifier: MIT
"""Ops that write tensors of the caller's: rotary_cache, and attention into a given result."""

import math

import pytest
import reference
import switchyard.torch as sy
import torch
from test_attention import compare

ops = torch.ops.switchyard
TOKENS, HEADS, HEADS_KV, DIM, PAGES, PAGE = 7, 4, 2, 16, 5, 8
SLOTS = torch.tensor([9, -1, 3, 39, 0, 17, -1])
POSITIONS = torch.tensor([0, 5, 11, 2, 2, 7, 1])


def turned(x, angles, style):
    """[tokens, heads, dim] in float64, the first 2 * pairs columns turned by angles [tokens, pairs]."""
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    pairs = angles.shape[1]
    part = x[..., : 2 * pairs]
    a, b = (part[..., :pairs], part[..., pairs:]) if style == "half" else (part[..., ::2], part[..., 1::2])
    both = a * cos - b * sin, b * cos + a * sin
    new = torch.cat(both, -1) if style == "half" else torch.stack(both, -1).flatten(-2)
    return torch.cat([new, x[..., 2 * pairs :]], -1)


def normed(x, weight):
    return x if weight is None else x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("pairs", [DIM // 2, 3])
@pytest.mark.parametrize("with_norms", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_rotary_cache(style, pairs, with_norms, narrow):
    q, k, v = (torch.randn(TOKENS, heads, DIM).bfloat16() for heads in (HEADS, HEADS_KV, HEADS_KV))
    kind = torch.float8_e4m3fn if narrow else torch.bfloat16
    # As vLLM's cache: keys and values side by side, heads outside of tokens.
    cache = torch.full((PAGES, HEADS_KV, PAGE, 2 * DIM), math.nan).to(kind)
    k_cache, v_cache = cache.transpose(1, 2).split(DIM, -1)
    angles = torch.rand(12, pairs) * 6
    weights = [torch.rand(DIM) + 0.5 if with_norms else None for _ in range(2)]
    scales = (torch.tensor([0.25]), torch.tensor([0.5, 2.0])) if narrow else (None, None)
    at = angles.double()[POSITIONS]
    want_q = turned(normed(q.double(), weights[0]), at, style)
    stored = turned(normed(k.double(), weights[1]), at, style), v.double()
    sy.rotary_cache(q, k, v, k_cache, v_cache, angles.cos(), angles.sin(), POSITIONS, SLOTS.int(), q_weight=weights[0],
                    k_weight=weights[1], k_scale=scales[0], v_scale=scales[1], epsilon=1e-5, style=style)  # fmt: skip
    compare(q, want_q, 1e-2)
    real = SLOTS[SLOTS >= 0]
    for found, want, scale in zip((k_cache, v_cache), stored, scales):
        rows, want = found[real // PAGE, real % PAGE].double(), want[SLOTS >= 0]
        if narrow:  # half of e4m3's last place: 2^-4 of the number, and 2^-10 below 2^-6
            scale = scale.double()[:, None]
            assert ((rows * scale - want).abs() <= (want.abs() / 16).maximum(scale / 1024) * 1.01).all()
        else:
            compare(rows, want, 1e-2)
    assert (~cache.float().isnan()).sum() == len(real) * HEADS_KV * 2 * DIM


def test_rotary_cache_refuses():
    q = torch.zeros(TOKENS, HEADS, DIM, dtype=torch.bfloat16)
    k, cache = q[:, :HEADS_KV], torch.zeros(PAGES, PAGE, HEADS_KV, DIM, dtype=torch.bfloat16)
    table = torch.zeros(12, DIM // 2)
    with pytest.raises(RuntimeError, match="301.*q is written in place"):
        sy.rotary_cache(q.transpose(1, 2), k, k, cache, cache, table, table, POSITIONS, SLOTS)
    with pytest.raises(RuntimeError, match="301.*slots"):
        sy.rotary_cache(q, k, k, cache, cache, table, table, POSITIONS, SLOTS + PAGES * PAGE)
    with pytest.raises(RuntimeError, match="301.*positions"):
        sy.rotary_cache(q, k, k, cache, cache, table[:11], table[:11], POSITIONS, SLOTS)
    with pytest.raises(RuntimeError, match="301"):
        sy.rotary_cache(q, k, k, cache.float(), cache.float(), table, table, POSITIONS, SLOTS)
    sy.rotary_cache(q[:0], k[:0], k[:0], cache, cache, table, table, POSITIONS[:0], SLOTS[:0])


def test_attention_into_a_part():
    """Of a larger tensor in NaN, whose rest is left alone; rows of queries that are not in use are 0."""
    q, k, v = torch.randn(2, 4, 5, DIM), torch.randn(2, 2, 9, DIM), torch.randn(2, 2, 9, DIM)
    whole = torch.full((2, 6, 4, 2 * DIM), math.nan)
    out = whole[:, :5, :, :DIM].transpose(1, 2)
    used = torch.tensor([5, 3], dtype=torch.int32)
    assert ops.attention_forward_into(q, k, v, out, seqused_q=used) is None
    want, _ = reference.attention(q.double(), k.double(), v.double())
    compare(out[0], want[0])
    compare(out[1, :, :3], want[1, :, :3])
    assert out[1, :, 3:].abs().max() == 0 and (~whole.isnan()).sum() == out.numel()
    lse = ops.attention_forward_into(q, k, v, out, with_lse=True)
    compare(out, want)
    compare(lse, reference.attention(q.double(), k.double(), v.double())[1])


def test_decode_into_a_part():
    q, k, v = torch.randn(3, 4, 2, DIM).bfloat16(), torch.randn(3, 2, 9, DIM).bfloat16(), torch.randn(3, 2, 9, DIM).bfloat16()
    whole = torch.full((3, 3, 4, DIM), math.nan, dtype=torch.bfloat16)
    out = whole[:, :2].transpose(1, 2)
    lse = ops.attention_decode_into(q, k, v, out, with_lse=True)
    want, want_lse = reference.attention(q.double(), k.double(), v.double(), mask="causal_bottom_right")
    compare(out, want, 2e-2)
    compare(lse, want_lse, 2e-2)
    assert whole[:, 2].isnan().all()


@pytest.mark.parametrize("op", [ops.attention_forward_into, ops.attention_decode_into])
def test_results_that_do_not_fit(op):
    q, k = torch.zeros(2, 4, 5, DIM, dtype=torch.float16), torch.zeros(2, 2, 9, DIM, dtype=torch.float16)
    for wrong in (torch.zeros(2, 4, 5, 8).half(), torch.zeros(2, 4, 5, DIM), torch.zeros(4, 5, DIM).half()):
        with pytest.raises(RuntimeError, match="301.*out must have q's type, and its shape"):
            op(q, k, k, wrong)
    with pytest.raises(RuntimeError, match="301.*out is written in place"):
        op(q, k, k, torch.zeros(2, 4, DIM, 5).half().transpose(2, 3))


def test_gradients_are_refused_at_the_call():
    """A later backward would not reach the op."""
    q, k = torch.zeros(2, 4, 5, DIM, requires_grad=True), torch.zeros(2, 2, 9, DIM)
    with pytest.raises(RuntimeError, match="attention_forward_into has no gradient"):
        ops.attention_forward_into(q, k, k, torch.zeros(2, 4, 5, DIM))
    with pytest.raises(RuntimeError, match="attention_decode_into has no gradient"):
        ops.attention_decode_into(q.half(), k.half(), k.half(), torch.zeros(2, 4, 5, DIM).half())
    with pytest.raises(RuntimeError, match="rotary_cache has no gradient"):
        cache, table = torch.zeros(PAGES, PAGE, HEADS_KV, DIM).half(), torch.zeros(12, DIM // 2)
        x = torch.zeros(TOKENS, HEADS_KV, DIM).half()
        sy.rotary_cache(x, x.clone().requires_grad_(), x, cache, cache, table, table, POSITIONS, SLOTS)
    with torch.no_grad():
        ops.attention_forward_into(q, k, k, torch.zeros(2, 4, 5, DIM))
