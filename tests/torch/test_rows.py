# SPDX-License-Identifier: MIT
"""Norms, gated activations, softmax and rotary, with gradients, on the shipped f32 CPU kernels against float64."""

import pytest
import switchyard.torch as sy
import torch


def layouts():
    """One tensor [3, 5, 4, 32] in several memory layouts."""
    dense = torch.randn(3, 5, 4, 32)
    return {
        "dense": dense,
        "transposed": torch.randn(3, 4, 5, 32).transpose(1, 2),
        "sliced": torch.randn(3, 5, 4, 96)[..., 32:64],
        "strided_columns": torch.randn(3, 5, 4, 64)[..., ::2],
        "gaps": torch.randn(3, 7, 6, 32)[:, 1:6, 1:5],
        "expanded": torch.randn(3, 1, 4, 32).expand(3, 5, 4, 32),
        "one_dimension": torch.randn(32),
    }


LAYOUTS = list(layouts())


def compare(got, want, tolerance=3e-6):
    assert got.shape == want.shape
    scale = max(1.0, want.abs().max().item())
    assert (got.double() - want).abs().max().item() <= tolerance * scale


def check(function, judge, *inputs):
    """A function of tensors and its gradients against one of float64 tensors."""
    mine = [x.detach().requires_grad_() for x in inputs]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, want = function(*mine), judge(*wide)
    got, want = [x if isinstance(x, tuple) else (x,) for x in (got, want)]
    grads = [torch.randn_like(x) for x in got]
    for a, b in zip(got, want, strict=True):
        compare(a, b)
    a = torch.autograd.grad(got, mine, grads)
    for x, y in zip(a, torch.autograd.grad(want, wide, [g.double() for g in grads]), strict=True):
        compare(x, y, 1e-5)


def judge_rms(x, weight=None, residual=None, offset=0.0):
    h = x if residual is None else x + residual
    out = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    out = out if weight is None else out * (weight + offset)
    return out if residual is None else (out, h)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm(layout, offset):
    x = layouts()[layout]
    weight = torch.randn(32)
    check(lambda x, w: sy.rms_norm(x, w, weight_offset=offset), lambda x, w: judge_rms(x, w, offset=offset), x, weight)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rms_norm_with_residual(layout):
    x, residual, weight = layouts()[layout], torch.randn_like(layouts()[layout]), torch.randn(32)
    check(sy.rms_norm, judge_rms, x, weight, residual)


def test_rms_norm_where_one_result_is_used():
    x, residual = torch.randn(4, 32, requires_grad=True), torch.randn(4, 32, requires_grad=True)
    out, h = sy.rms_norm(x, None, residual)
    (grad,) = torch.autograd.grad(h.sum(), x, retain_graph=True)
    compare(grad, torch.ones(4, 32, dtype=torch.float64))
    wide = x.detach().double().requires_grad_()
    compare(torch.autograd.grad(out.sum(), x)[0],
            torch.autograd.grad(judge_rms(wide, None, residual.detach().double())[0].sum(), wide)[0], 1e-5)  # fmt: skip


def judge_layer(x, weight=None, bias=None, residual=None):
    h = x if residual is None else x + residual
    out = torch.nn.functional.layer_norm(h, h.shape[-1:], weight, bias, 1e-5)
    return out if residual is None else (out, h)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layer_norm(layout):
    x, weight, bias = layouts()[layout], torch.randn(32), torch.randn(32)
    check(sy.layer_norm, judge_layer, x, weight, bias)
    check(sy.layer_norm, judge_layer, x)
    check(sy.layer_norm, judge_layer, x, weight, bias, torch.randn_like(x))


def judge_gated(function):
    activation = {
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }[function]
    return lambda gate, up: activation(gate) * up


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", ["silu", "gelu", "gelu_tanh"])
def test_gated_activation(layout, function):
    gate = layouts()[layout]
    judge = judge_gated(function)
    check(lambda g, u: sy.gated_activation(g, u, function=function), judge, gate, torch.randn(gate.shape))
    check(lambda g: sy.gated_activation(g, function=function), lambda g: judge(*g.chunk(2, -1)), gate)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_softmax(layout):
    check(lambda x: sy.softmax(x, scale=0.7), lambda x: torch.softmax(0.7 * x, -1), layouts()[layout])


def judge_rotary(x, cos, sin, style):
    """[B, H, S, D]; cos and sin [S, rotary_dim / 2]."""
    half = cos.shape[-1]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    pairs = turned.unflatten(-1, (2, half)) if style == "half" else turned.unflatten(-1, (half, 2)).transpose(-1, -2)
    a, b = pairs.unbind(-2)
    out = torch.stack([a * cos - b * sin, b * cos + a * sin], -2)
    out = (out if style == "half" else out.transpose(-1, -2)).flatten(-2)
    return torch.cat([out, rest], -1)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [32, 16])
def test_rotary(style, rotary_dim):
    q, k = torch.randn(2, 6, 4, 32).transpose(1, 2), torch.randn(2, 6, 2, 32).transpose(1, 2)
    angle = torch.randn(6, rotary_dim // 2)
    cos, sin = angle.cos(), angle.sin()
    judge = lambda q, k: tuple(judge_rotary(x, cos.double(), sin.double(), style) for x in (q, k))
    check(lambda q, k: sy.rotary(q, k, cos, sin, style=style), judge, q, k)
    check(lambda q: sy.rotary(q, None, cos, sin, style=style), lambda q: judge(q, q)[0], q)


def test_rotary_tables_with_strided_rows():
    """As gpt-oss of transformers 5.17 makes them; a tensor whose last dimension is strided is copied."""
    q, angle = torch.randn(1, 2, 6, 32), torch.randn(16, 6).T
    dense = angle.contiguous()
    assert torch.equal(sy.rotary(q, None, angle.cos(), angle.sin()), sy.rotary(q, None, dense.cos(), dense.sin()))


def test_rotary_positions():
    q = torch.randn(2, 4, 3, 32)
    angle = torch.randn(50, 16)
    cos, sin = angle.cos(), angle.sin()
    ids = torch.tensor([[4, 9, 1], [0, 49, 7]])
    got = sy.rotary(q, None, cos, sin, positions=ids)
    want = torch.stack([judge_rotary(q[b].double(), cos[ids[b]].double(), sin[ids[b]].double(), "half") for b in (0, 1)])
    compare(got, want)
    offsets = torch.tensor([5, 30], dtype=torch.int32)
    compare(sy.rotary(q, None, cos, sin, sequence_offsets=offsets),
            sy.rotary(q, None, cos, sin, positions=torch.arange(3) + offsets[:, None].long()).double())  # fmt: skip


def test_rotary_of_packed_sequences():
    q = torch.randn(7, 4, 32)
    cu = torch.tensor([0, 3, 7], dtype=torch.int32)
    got = sy.rotary(q, cu_seqlens=cu, longest=4)
    for begin, end in ((0, 3), (3, 7)):
        want = sy.rotary(q[begin:end].transpose(0, 1)[None])[0].transpose(0, 1)
        compare(got[begin:end], want.double())


def test_rotary_refuses_a_gradient_of_its_table():
    q, angle = torch.randn(2, 4, 3, 32), torch.randn(3, 16, requires_grad=True)
    with pytest.raises(RuntimeError, match="no gradient for cos and sin"):
        sy.rotary(q, None, angle.cos(), angle.sin()).sum().backward()


def test_half_precision_rounds_once():
    x, weight = torch.randn(64, 256).bfloat16(), torch.randn(256).bfloat16()
    want = judge_rms(x.double(), weight.double())
    mine = (sy.rms_norm(x, weight).double() - want).abs().max()
    assert mine <= want.abs().max() * 2**-8
    # transformers rounds before the weight, too
    twice = weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16()
    assert (sy.rms_norm(x, weight).double() - want).norm() < (twice.double() - want).norm()


def test_tensors_without_rows():
    for shape in ((0, 32), (3, 0, 32)):
        x = torch.randn(shape, requires_grad=True)
        weight = torch.randn(32, requires_grad=True)
        out = sy.rms_norm(x, weight)
        assert out.shape == shape
        out.sum().backward()
        assert torch.equal(weight.grad, torch.zeros(32))
        assert sy.softmax(x).shape == shape and sy.gated_activation(x, x).shape == shape


def test_another_device_is_named():
    x = torch.randn(3, 32)
    with pytest.raises(RuntimeError, match=r"\[switchyard.301\] gated_activation: up has another shape"):
        sy.gated_activation(x, torch.randn(4, 32))


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (2, 0, 8), (0,)])
def test_empty_tensors(shape):
    x, w = torch.randn(shape, requires_grad=True), torch.randn(shape[-1], requires_grad=True)
    for out in (sy.rms_norm(x, w), sy.layer_norm(x, w, w), sy.softmax(x), sy.gated_activation(x, x)):
        assert out.shape == x.shape
        assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape
    for out in (sy.rms_norm(x, w), sy.layer_norm(x, w, w)):
        assert torch.equal(torch.autograd.grad(out.sum(), w)[0], torch.zeros_like(w))
