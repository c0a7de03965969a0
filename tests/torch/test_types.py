# SPDX-License-Identifier: MIT
"""Types that users have beside a call's tensors, and tensors without elements."""

import pytest
import reference
import switchyard.torch as sy
import torch
from test_attention import compare, pages_of, tensors
from test_rows import judge_layer, judge_rms

HALF = torch.bfloat16


def test_a_bias_in_f32_beside_half_precision():
    q, k, v = tensors(d=32, dv=32, dtype=HALF)
    bias = torch.randn(2, 4, 13, 19, requires_grad=True)
    out = sy.attention(q, k, v, bias=bias)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v, bias.to(HALF))]
    want, _ = reference.attention(*wide[:3], bias=wide[3])
    compare(out, want, 1e-2)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, (q, k, v, bias), grad)
    assert got[3].dtype == torch.float32
    for mine, theirs in zip(got, torch.autograd.grad(want, wide, grad.double()), strict=True):
        compare(mine, theirs, 3e-2)


def test_sinks_and_slopes_in_half_precision():
    q, k, v = tensors()
    sinks, slopes = torch.randn(4).to(HALF).requires_grad_(), torch.rand(4).to(HALF)
    wide = sinks.detach().double().requires_grad_()
    out = sy.attention(q, k, v, causal=True, sinks=sinks, alibi_slopes=slopes)
    want, _ = reference.attention(*(tensor.detach().double() for tensor in (q, k, v)), mask="causal_bottom_right", sinks=wide,
                                  alibi=slopes.double())  # fmt: skip
    compare(out, want)
    grad = torch.randn_like(out)
    (got,), (judge,) = torch.autograd.grad(out, sinks, grad), torch.autograd.grad(want, wide, grad.double())
    assert got.dtype == HALF
    compare(got, judge, 1e-2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16])
def test_lengths_of_other_types(dtype):
    """The same bits as with i32."""
    q, k, v = [torch.randn(12, heads, 16) for heads in (4, 2, 2)]
    cu = torch.tensor([0, 5, 12], dtype=torch.int32)
    want = sy.attention_varlen(q, k, v, cu, cu, 7, 7, causal=True)
    assert torch.equal(sy.attention_varlen(q, k, v, cu.to(dtype), cu.to(dtype), 7, 7, causal=True), want)
    assert torch.equal(sy.rotary(q, cu_seqlens=cu.to(dtype), longest=7), sy.rotary(q, cu_seqlens=cu, longest=7))
    q, k, v = [tensor.detach() for tensor in tensors(n=2)]
    used = torch.tensor([5, 19], dtype=torch.int32)
    options = {"causal": True, "seqused_q": torch.tensor([1, 2], dtype=torch.int32)}
    other = {"causal": True, "seqused_q": options["seqused_q"].to(dtype)}
    assert torch.equal(
        sy.attention(q, k, v, seqused_k=used.to(dtype), **other), sy.attention(q, k, v, seqused_k=used, **options)
    )
    pages, table = pages_of(k, 8)
    want = sy.attention(q, pages, pages, causal=True, block_table=table, seqused_k=used)
    assert torch.equal(sy.attention(q, pages, pages, causal=True, block_table=table.to(dtype), seqused_k=used.to(dtype)), want)
    q, k = q.to(HALF), k.to(HALF)
    want = sy.attention_decode(q, k, k, seqused_k=used)
    assert torch.equal(sy.attention_decode(q, k, k, seqused_k=used.to(dtype)), want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_positions_of_other_types(dtype):
    q, angle, positions = torch.randn(2, 4, 3, 32), torch.randn(50, 16), torch.tensor([[4, 9, 1], [0, 49, 7]])
    turn = lambda positions: sy.rotary(q, None, angle.cos(), angle.sin(), positions=positions)
    assert torch.equal(turn(positions.to(dtype)), turn(positions))
    offsets = torch.tensor([5, 30])
    assert torch.equal(sy.rotary(q, sequence_offsets=offsets.to(dtype)), sy.rotary(q, sequence_offsets=offsets.int()))


def test_lengths_that_are_no_integers_are_refused():
    q = torch.randn(12, 4, 16)
    with pytest.raises(RuntimeError, match=r"\[switchyard.301\] attention_forward: .*cu_seqlens_q"):
        sy.attention_varlen(q, q, q, torch.tensor([0.0, 12.0]), torch.tensor([0, 12]), 12, 12)
    with pytest.raises(RuntimeError, match=r"\[switchyard.301\] rotary: .*positions"):
        sy.rotary(q[None].transpose(1, 2), positions=torch.zeros(1, 12))


@pytest.mark.parametrize("types", [(HALF, torch.float32), (torch.float32, HALF), (torch.float16, HALF)])
def test_weights_of_other_types(types):
    """Rows of one type and weights of another; gradients have their own."""
    x = torch.randn(5, 32).to(types[0]).requires_grad_()
    weight, bias = [torch.randn(32).to(types[1]).requires_grad_() for _ in range(2)]
    mixed = torch.randn(32, requires_grad=True)
    for run, judge, given in ((sy.rms_norm, judge_rms, (x, weight)), (sy.layer_norm, judge_layer, (x, weight, bias)),
                              (sy.layer_norm, judge_layer, (x, weight, mixed))):  # fmt: skip
        out = run(*given)
        wide = [tensor.detach().double().requires_grad_() for tensor in given]
        want = judge(*wide)
        assert out.dtype == x.dtype
        compare(out, want, 1e-2)
        grad = torch.randn_like(out)
        judged = torch.autograd.grad(want, wide, grad.double())
        for tensor, mine, theirs in zip(given, torch.autograd.grad(out, given, grad), judged, strict=True):
            assert mine.dtype == tensor.dtype
            compare(mine, theirs, 2e-2)


def zero_gradients(out, given):
    for tensor, grad in zip(given, torch.autograd.grad(out.sum(), given, retain_graph=True), strict=True):
        assert grad.shape == tensor.shape and torch.equal(grad, torch.zeros_like(tensor))


NAMES = {"batch": 2, "heads": 4, "heads_kv": 2, "n": 5, "m": 7, "d": 16, "dv": 8}


@pytest.mark.parametrize("empty", NAMES)
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_without(empty, sinks, causal):
    """Each dimension of attention."""
    s = {**NAMES, empty: 0}
    if empty == "heads":
        s["heads_kv"] = 0
    cached = s["batch"], s["heads_kv"], s["m"]
    shapes = (s["batch"], s["heads"], s["n"], s["d"]), (*cached, s["d"]), (*cached, s["dv"])
    given = [torch.randn(shape, requires_grad=True) for shape in shapes]
    sink = torch.randn(s["heads"], requires_grad=True) if sinks else None
    if empty in ("heads_kv", "d"):  # no group of heads, no scores
        with pytest.raises(RuntimeError, match=r"\[switchyard.301\] attention_forward: .*(heads|head_dim)"):
            sy.attention(*given, causal=causal, sinks=sink)
        return
    out, lse = sy.attention(*given, causal=causal, sinks=sink, return_lse=True)
    assert out.shape == (s["batch"], s["heads"], s["n"], s["dv"]) and lse.shape == out.shape[:3]
    zero_gradients(out, [*given, sink] if sinks else given)
    if empty == "dv":  # scores are there all the same
        _, want = reference.attention(*(tensor.detach().double() for tensor in (*given[:2], given[1])),
                                      mask="causal_bottom_right" if causal else "none",
                                      sinks=None if sink is None else sink.detach().double())  # fmt: skip
        compare(lse.detach(), want)


def test_decode_of_values_without_columns():
    q, k = torch.randn(2, 4, 1, 64).to(HALF), torch.randn(2, 2, 7, 64).to(HALF)
    out, lse = sy.attention_decode(q, k, k[..., :0], return_lse=True)
    assert out.shape == (2, 4, 1, 0)
    compare(lse, reference.attention(q.double(), k.double(), k.double())[1], 1e-2)


@pytest.mark.parametrize("empty", ["sequences", "tokens", "keys"])
@pytest.mark.parametrize("sinks", [False, True])
def test_packed_attention_without(empty, sinks):
    count = {"sequences": [0], "tokens": [0, 0, 0], "keys": [0, 2, 5]}[empty]
    cu_q = torch.tensor(count, dtype=torch.int32)
    cu_k = torch.zeros_like(cu_q)
    q, k, v = [torch.randn(total, heads, 16, requires_grad=True) for total, heads in ((count[-1], 4), (0, 2), (0, 2))]
    sink = torch.randn(4, requires_grad=True) if sinks else None
    out = sy.attention_varlen(q, k, v, cu_q, cu_k, 3, 0, sinks=sink)
    assert torch.equal(out, torch.zeros_like(q))
    zero_gradients(out, [q, k, v, sink] if sinks else [q, k, v])
    assert sy.rotary(q, k, cu_seqlens=cu_q, longest=3)[0].shape == q.shape if empty != "keys" else True


@pytest.mark.parametrize("empty", ["batch", "heads", "n", "m"])
@pytest.mark.parametrize("sinks", [False, True])
def test_decode_without(empty, sinks):
    s = {**NAMES, "n": 1, empty: 0}
    if empty == "heads":
        s["heads_kv"] = 0
    q, k = torch.randn(s["batch"], s["heads"], s["n"], 64).to(HALF), torch.randn(s["batch"], s["heads_kv"], s["m"], 64).to(HALF)
    out = sy.attention_decode(q, k, k, sinks=torch.randn(s["heads"]) if sinks else None)
    assert torch.equal(out, torch.zeros_like(q))


@pytest.mark.parametrize("empty", range(4))
@pytest.mark.parametrize("with_k", [False, True])
def test_rotary_without(empty, with_k):
    shape = [2, 4, 5, 16]
    shape[empty] = 0
    q, k = torch.randn(shape, requires_grad=True), torch.randn(shape, requires_grad=True)
    angle = torch.randn(shape[2], shape[3] // 2)
    for tables in ((), (angle.cos(), angle.sin())):
        out = sy.rotary(q, k if with_k else None, *tables)
        for tensor, turned in zip((q, k), out if with_k else (out,), strict=False):
            assert turned.shape == tensor.shape
            zero_gradients(turned, [tensor])


def test_rotary_of_keys_without_heads():
    """One of the two may be empty alone."""
    q, k = torch.randn(2, 4, 5, 16, requires_grad=True), torch.randn(2, 0, 5, 16)
    out, other = sy.rotary(q, k)
    assert torch.equal(out, sy.rotary(q)) and other.shape == k.shape
    none, turned = sy.rotary(k, q)
    assert torch.equal(turned, out) and none.shape == k.shape


@pytest.mark.parametrize("empty", range(4))
def test_dropout_mask_without(empty):
    shape = [2, 3, 4, 5]
    shape[empty] = 0
    assert sy.attention_dropout_mask(torch.tensor([1, 2]), *shape, 0.5).shape == tuple(shape)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (2, 0, 8), (0,), (2, 3, 0)])
def test_rows_without(shape):
    x, residual, w = [torch.randn(size, requires_grad=True) for size in (shape, shape, shape[-1:])]
    for out in (*sy.rms_norm(x, w, residual), *sy.layer_norm(x, w, w, residual), sy.gated_activation(x, x), sy.softmax(x)):
        assert out.shape == x.shape
        assert torch.autograd.grad(out.sum(), x, retain_graph=True)[0].shape == x.shape
    for out in (sy.rms_norm(x, w), sy.layer_norm(x, w, w)):
        zero_gradients(out, [w])
    both = torch.randn((*shape[:-1], 2 * shape[-1]), requires_grad=True)
    assert torch.autograd.grad(sy.gated_activation(both).sum(), both)[0].shape == both.shape
