# SPDX-License-Identifier: MIT
"""switchyard.xformers with stand-ins of xformers' biases and, where it is installed, with xformers' own, each against what the
bias materializes to in float64."""

import dataclasses

import pytest
import torch
from switchyard.xformers import memory_efficient_attention
from test_attention import compare

H, HK, D = 4, 2, 24


def definition(q, k, v, bias=None, scale=None):
    """[batch, tokens, heads, dim] in float64; rows that see nothing give 0."""
    k, v = (tensor.repeat_interleave(q.shape[2] // k.shape[2], 2) for tensor in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias.double()
    sees = (scores > -torch.inf).any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~sees, 0), -1) * sees
    return torch.einsum("bhqk,bkhd->bqhd", weights, v.double())


def check(shapes, bias=None, dense=None, dtype=torch.float32, tolerance=5e-6, **options):
    given = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    out = memory_efficient_attention(*given, bias, **options)
    want = definition(*given, dense, **options)
    compare(out, want, tolerance)
    grad = torch.randn_like(out)
    exact = torch.autograd.grad(want, given, grad.double())
    for mine, theirs in zip(torch.autograd.grad(out, given, grad), exact, strict=True):
        compare(mine, theirs, 4 * tolerance)


def band(n, m, left=None, right=0, from_bottom=False):
    """0 where a query sees a key, else -infinity."""
    behind = torch.arange(m) - torch.arange(n)[:, None] - (m - n if from_bottom else 0)
    seen = torch.ones(n, m, dtype=torch.bool)
    seen = seen if right is None else seen & (behind <= right)
    seen = seen if left is None else seen & (behind >= -left)
    return torch.zeros(n, m).masked_fill(~seen, -torch.inf)


def blocks(lengths_q, lengths_k, one):
    """A block for each sequence; `one` makes it."""
    out = torch.full((sum(lengths_q), sum(lengths_k)), -torch.inf)
    i = j = 0
    for n, m in zip(lengths_q, lengths_k, strict=True):
        out[i : i + n, j : j + m] = one(n, m)
        i, j = i + n, j + m
    return out


@dataclasses.dataclass
class Info:
    seqstart: torch.Tensor
    max_seqlen: int
    seqlen: torch.Tensor = None
    padding: int = 0


def info(lengths):
    return Info(torch.tensor([0, *lengths]).cumsum(0).to(torch.int32), max(lengths))


def stand_in(name, **members):
    return dataclasses.make_dataclass(name, members)(*members.values())


def test_plain_and_layouts():
    check([(2, 9, H, D), (2, 13, HK, D), (2, 13, HK, D)])
    check([(2, 9, H, D), (2, 13, HK, D), (2, 13, HK, D)], scale=0.3)
    check([(2, 9, H, D), (2, 13, HK, D), (2, 13, HK, D)], dtype=torch.bfloat16, tolerance=2e-2)
    q, k = torch.randn(2, 9, D), torch.randn(2, 13, D)
    compare(memory_efficient_attention(q, k, k), definition(q[:, :, None], k[:, :, None], k[:, :, None])[:, :, 0])
    q, k = torch.randn(2, 9, HK, 3, D), torch.randn(2, 13, HK, 1, D)
    for keys in (k.expand(-1, -1, -1, 3, -1), k.repeat(1, 1, 1, 3, 1)):
        want = definition(q.flatten(2, 3), keys.flatten(2, 3), keys.flatten(2, 3)).unflatten(2, (HK, 3))
        compare(memory_efficient_attention(q, keys, keys), want)
    assert memory_efficient_attention(q, k.expand(-1, -1, -1, 3, -1), k.expand(-1, -1, -1, 3, -1), p=0.5).shape == q.shape
    assert memory_efficient_attention(q[:, :, 0], k[:, :, 0], k[:, :, 0], output_dtype=torch.float64).dtype == torch.float64


def test_tensors():
    bias = torch.randn(2, H, 9, 13)
    check([(2, 9, H, D), (2, 13, H, D), (2, 13, H, D)], bias, bias)
    check([(2, 9, H, D), (2, 13, H, D), (2, 13, H, D)], bias[:1, :1].expand(2, H, 9, 13), bias[:1, :1])
    both = stand_in("LowerTriangularMaskWithTensorBias", _bias=bias)
    check([(2, 9, H, D), (2, 13, H, D), (2, 13, H, D)], both, bias + band(9, 13))


@pytest.mark.parametrize("n, m", [(9, 13), (13, 9), (1, 7)])
def test_triangles_and_bands(n, m):
    shapes = [(2, n, H, D), (2, m, HK, D), (2, m, HK, D)]
    check(shapes, stand_in("LowerTriangularMask"), band(n, m))
    check(shapes, stand_in("LowerTriangularFromBottomRightMask"), band(n, m, from_bottom=True))
    local = stand_in("LowerTriangularFromBottomRightLocalAttentionMask", _window_size=3)
    check(shapes, local, band(n, m, 2, from_bottom=True))
    both = stand_in("LocalAttentionFromBottomRightMask", window_left=2, window_right=1)
    check(shapes, both, band(n, m, 2, 1, from_bottom=True))


LENGTHS = [3, 1, 7], [5, 2, 9]
PACKED = {
    "BlockDiagonalMask": lambda n, m: band(n, m, right=None),
    "BlockDiagonalCausalMask": band,
    "BlockDiagonalCausalLocalAttentionMask": lambda n, m: band(n, m, 2),
    "BlockDiagonalCausalFromBottomRightMask": lambda n, m: band(n, m, from_bottom=True),
    "BlockDiagonalCausalLocalAttentionFromBottomRightMask": lambda n, m: band(n, m, 2, from_bottom=True),
}


@pytest.mark.parametrize("name", PACKED)
def test_blocks(name):
    members = {"_window_size": 3} if "Local" in name else {}
    bias = stand_in(name, q_seqinfo=info(LENGTHS[0]), k_seqinfo=info(LENGTHS[1]), **members)
    check([(1, 11, H, D), (1, 16, HK, D), (1, 16, HK, D)], bias, blocks(*LENGTHS, PACKED[name]))


PADDED = {
    "PaddedKeysMask": ({}, lambda n, m: band(n, m, right=None)),
    "LocalAttentionPaddedKeysMask": ({"window_left": 2, "window_right": 1}, lambda n, m: band(n, m, 2, 1, from_bottom=True)),
    "CausalWithOffsetPaddedKeysMask": ({}, lambda n, m: band(n, m, from_bottom=True)),
    "CausalLocalAttentionPaddedKeysMask": ({"_window_size": 3}, lambda n, m: band(n, m, 2, from_bottom=True)),
}


@pytest.mark.parametrize("name", PADDED)
def test_blocks_of_padded_keys(name):
    members, one = PADDED[name]
    padding = 10
    starts = torch.arange(4, dtype=torch.int32) * padding
    keys = Info(starts, max(LENGTHS[1]), torch.tensor(LENGTHS[1], dtype=torch.int32), padding)
    bias = stand_in("BlockDiagonal" + name, q_seqinfo=info(LENGTHS[0]), k_seqinfo=keys, **members)
    dense = blocks(LENGTHS[0], [padding] * 3, lambda n, _: torch.full((n, padding), -torch.inf))
    begin = 0
    for b, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
        dense[begin : begin + n, b * padding : b * padding + m] = one(n, m)
        begin += n
    check([(1, 11, H, D), (1, 30, HK, D), (1, 30, HK, D)], bias, dense)


PAGED = {
    "PaddedKeysMask": ({}, lambda n, m: band(n, m, right=None)),
    "CausalWithOffsetPaddedKeysMask": ({}, lambda n, m: band(n, m, from_bottom=True)),
    "CausalLocalPaddedKeysMask": ({"_window_size": 3}, lambda n, m: band(n, m, 2, from_bottom=True)),
}


@pytest.mark.parametrize("name", PAGED)
def test_blocks_of_pages(name):
    members, one = PAGED[name]
    table = torch.tensor([[3, 1], [0, 5], [4, 2]], dtype=torch.int32)
    keys = Info(torch.arange(4, dtype=torch.int32) * 16, max(LENGTHS[1]), torch.tensor(LENGTHS[1], dtype=torch.int32), 16)
    bias = stand_in("PagedBlockDiagonal" + name, q_seqinfo=info(LENGTHS[0]), k_seqinfo=keys, block_tables=table, page_size=8,
                    **members)  # fmt: skip
    q, k, v = (torch.randn(1, n, h, D) for n, h in ((11, H), (48, HK), (48, HK)))
    out = memory_efficient_attention(q, k, v, bias)
    pages = [tensor.unflatten(1, (6, 8))[0] for tensor in (k, v)]
    rows = [
        torch.cat([paged[row].flatten(0, 1)[:m] for row, m in zip(table, LENGTHS[1], strict=True)])[None] for paged in pages
    ]
    compare(out, definition(q, *rows, blocks(*LENGTHS, one)))


def test_refusals():
    q = torch.randn(2, 5, H, D)
    with pytest.raises(RuntimeError, match="a bias of class GappyMask is not served"):
        memory_efficient_attention(q, q, q, stand_in("GappyMask"))
    with pytest.raises(RuntimeError, match="BlockDiagonalMask goes with a batch of 1, not of 2"):
        memory_efficient_attention(q, q, q, stand_in("BlockDiagonalMask", q_seqinfo=info([5]), k_seqinfo=info([5])))
    with pytest.raises(RuntimeError, match="LocalAttentionFromBottomRightMask does not say its window"):
        memory_efficient_attention(q, q, q, stand_in("LocalAttentionFromBottomRightMask"))
    with pytest.raises(RuntimeError, match="query has 2 dimensions"):
        memory_efficient_attention(q[0, 0], q, q)


def own_biases():
    fmha = pytest.importorskip("xformers.ops.fmha.attn_bias")
    q, k = LENGTHS
    blocked = fmha.BlockDiagonalMask.from_seqlens(q, k)
    dense = {"triangle": fmha.LowerTriangularMask(), "bottom": fmha.LowerTriangularFromBottomRightMask(),
             "local": fmha.LowerTriangularFromBottomRightMask().make_local_attention(3),
             "band": fmha.LocalAttentionFromBottomRightMask(window_left=2, window_right=1)}  # fmt: skip
    packed = {"blocks": blocked, "causal": blocked.make_causal(), "from bottom": blocked.make_causal_from_bottomright(),
              "local blocks": blocked.make_local_attention(4),
              "local from bottom": blocked.make_local_attention_from_bottomright(3)}  # fmt: skip
    padded = {
        "padded": fmha.BlockDiagonalPaddedKeysMask.from_seqlens(q, 10, k),
        "padded causal": fmha.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens(q, 10, k),
        "padded local": fmha.BlockDiagonalLocalAttentionPaddedKeysMask.from_seqlens_local(q, 10, k, 2, 1),
        "padded causal local": fmha.BlockDiagonalCausalLocalAttentionPaddedKeysMask.from_seqlens_local(q, 10, k, 3),
    }
    return dense, packed, padded


def test_the_biases_of_xformers():
    for biases, (n, m) in zip(own_biases(), ((9, 13), (11, 16), (11, 30)), strict=True):
        for bias in biases.values():
            batch = 2 if m == 13 else 1
            dense = bias.materialize((n, m), device="cpu")
            check([(batch, n, H, D), (batch, m, HK, D), (batch, m, HK, D)], bias, dense)
