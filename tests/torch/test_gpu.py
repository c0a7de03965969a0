# SPDX-License-Identifier: MIT
"""The ops on a GPU, in f16 and bf16: a grid as FlashAttention's tests have it, each call against float64, with
their tolerance: at most twice the error that PyTorch makes in the same element type, and a rounding step.

Also what a GPU adds: streams, CUDA graphs, no synchronisation, opcheck on the device.
"""

import subprocess
import sys

import pytest
import reference
import switchyard.torch as sy
import torch
from switchyard.flash_attn import flash_attn_with_kvcache
from test_flash_attn import turned
from torch.nn.attention.flex_attention import create_block_mask

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

DTYPES = [torch.float16, torch.bfloat16]
LENGTHS = [(113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024), (1, 239),
           (3, 799), (64, 128)]  # fmt: skip
KINDS = {
    "full": {},
    "causal": {"mask": "causal_bottom_right"},
    "local": {"window": (37, 21)},
    "causal_local": {"mask": "causal_bottom_right", "window": (45, -1)},
    "soft_cap": {"mask": "causal_bottom_right", "soft_cap": 15.0},
}


def random(*shape, dtype):
    return torch.randn(shape, dtype=dtype, device="cuda", requires_grad=True)


def ours(options):
    out = {"causal" if key == "mask" else key: value for key, value in options.items()}
    return out


def within(got, low, want, factor=2.0):
    """FlashAttention's rule."""
    step = 2 * (want.to(got.dtype).double() - want).abs().max().item()
    limit = factor * (low.double() - want).abs().max().item() + step + 1e-5
    error = (got.double() - want).abs().max().item()
    assert torch.isfinite(got).all() and error <= limit, f"error {error:.3g}, limit {limit:.3g}"


def judge(inputs, grad, grad_lse=None, **options):
    """The result and gradients, through the LSE too if it has one, in float64 and in the inputs' element type."""
    out = []
    for dtype in (torch.float64, inputs[0].dtype):
        leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
        results = reference.attention(*leaves, **options)
        grads = [tensor.to(dtype) for tensor in (grad, grad_lse) if tensor is not None]
        out.append([results[0], *torch.autograd.grad(results[: len(grads)], leaves, grads)])
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [(32, 32), (64, 64), (80, 80), (96, 96), (128, 128), (192, 128), (256, 256)])
@pytest.mark.parametrize("heads_kv", [6, 2, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_dense(dtype, dim, heads_kv, kind):
    for n, m in LENGTHS:
        inputs = [random(2, 6, n, dim[0], dtype=dtype), random(2, heads_kv, m, dim[0], dtype=dtype),
                  random(2, heads_kv, m, dim[1], dtype=dtype)]  # fmt: skip
        out = sy.attention(*inputs, **ours(KINDS[kind]))
        grad = torch.randn_like(out)
        grads = torch.autograd.grad(out, inputs, grad)
        want, low = judge(inputs, grad, **KINDS[kind])
        within(out, low[0], want[0])
        for mine, theirs, exact in zip(grads, low[1:], want[1:], strict=True):
            within(mine, theirs, exact, 3.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("heads_kv", [6, 2])
@pytest.mark.parametrize("window", [(-1, 0), (300, 0), (37, 21)])
def test_block_mask(dtype, dim, heads_kv, window):
    """As the same window without a mask. Gradients come in the layout of the result, and dense; calls differ in that alone."""

    def sees(b, h, i, j):
        return ((i - j <= window[0]) | (window[0] < 0)) & (j - i <= window[1])

    for n in (300, 1024):
        mask = create_block_mask(sees, None, None, n, n, device="cuda")
        inputs = [random(2, heads, n, dim, dtype=dtype) for heads in (6, heads_kv, heads_kv)]
        out, lse = sy.attention(*inputs, block_mask=mask, return_lse=True)
        grad_lse = torch.randn_like(lse)
        for grad in (torch.randn_like(out), torch.randn(out.shape, dtype=dtype, device="cuda"), torch.randn_like(out)):
            grads = torch.autograd.grad((out, lse), inputs, (grad, grad_lse), retain_graph=True)
            want, low = judge(inputs, grad, grad_lse, window=window)
            within(out, low[0], want[0])
            for mine, theirs, exact in zip(grads, low[1:], want[1:], strict=True):
                within(mine, theirs, exact, 3.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [(64, 64), (80, 80), (128, 128), (192, 128), (256, 256)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_lse_has_a_gradient(dtype, dim, kind):
    for n, m in [(113, 203), (1024, 1024)]:
        inputs = [random(2, 6, n, dim[0], dtype=dtype), random(2, 2, m, dim[0], dtype=dtype),
                  random(2, 2, m, dim[1], dtype=dtype)]  # fmt: skip
        out, lse = sy.attention(*inputs, **ours(KINDS[kind]), return_lse=True)
        given = torch.randn_like(out), torch.randn_like(lse)
        grads = torch.autograd.grad((out, lse), inputs, given)
        want, low = judge(inputs, *given, **KINDS[kind])
        for mine, theirs, exact in zip(grads, low[1:], want[1:], strict=True):
            within(mine, theirs, exact, 3.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("kind", ["full", "causal"])
def test_a_loss_of_the_lse_alone(dtype, dim, kind):
    """No gradient of the result comes back: that of v is 0."""
    inputs = [random(2, 6, 113, dim, dtype=dtype), random(2, 2, 203, dim, dtype=dtype), random(2, 2, 203, dim, dtype=dtype)]
    _, lse = sy.attention(*inputs, **ours(KINDS[kind]), return_lse=True)
    given = torch.randn_like(lse)
    grads = torch.autograd.grad(lse, inputs, given)
    want, low = judge(inputs, torch.zeros(2, 6, 113, dim, device="cuda"), given, **KINDS[kind])
    for mine, theirs, exact in zip(grads, low[1:], want[1:], strict=True):
        within(mine, theirs, exact, 3.0)
    assert not grads[2].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("kind", ["full", "causal", "local"])
def test_the_lse_of_packed_sequences_has_a_gradient(dtype, dim, kind):
    lengths = [113, 1, 512, 77]
    cu = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    inputs = [random(sum(lengths), h, dim, dtype=dtype) for h in (6, 2, 2)]
    out, lse = sy.attention_varlen(*inputs, cu, cu, max(lengths), max(lengths), **ours(KINDS[kind]), return_lse=True)
    given = torch.randn_like(out), torch.randn_like(lse)
    grads = torch.autograd.grad((out, lse), inputs, given)
    for begin, end in zip(cu.tolist(), cu.tolist()[1:]):
        here = slice(begin, end)
        one = [x[here].transpose(0, 1)[None] for x in inputs]
        want, low = judge(one, given[0][here].transpose(0, 1)[None], given[1][:, here][None], **KINDS[kind])
        for mine, theirs, exact in zip(grads, low[1:], want[1:], strict=True):
            within(mine[here].transpose(0, 1)[None], theirs, exact, 3.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("heads_kv", [6, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_packed(dtype, dim, heads_kv, kind):
    lengths = [113, 1, 512, 250, 77]
    cu = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    total, longest = sum(lengths), max(lengths)
    inputs = [random(total, h, dim, dtype=dtype) for h in (6, heads_kv, heads_kv)]
    out = sy.attention_varlen(*inputs, cu, cu, longest, longest, **ours(KINDS[kind]))
    grad = torch.randn_like(out)
    grads = torch.autograd.grad(out, inputs, grad)
    begin = 0
    for length in lengths:
        here = slice(begin, begin + length)
        one = [x[here].transpose(0, 1)[None] for x in inputs]
        want, low = judge(one, grad[here].transpose(0, 1)[None], **KINDS[kind])
        mine = [x[here].transpose(0, 1)[None] for x in (out, *grads)]
        for index, (a, b, c) in enumerate(zip(mine, low, want, strict=True)):
            within(a, b, c, 2.0 if index == 0 else 3.0)
        begin += length


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("queries", [1, 4])
def test_decode(dtype, dim, queries):
    q = random(3, 8, queries, dim, dtype=dtype).detach()
    k, v = [random(3, 2, 1031, dim, dtype=dtype).detach() for _ in range(2)]
    used = torch.tensor([77, 1031, 512], dtype=torch.int32, device="cuda")
    out = sy.attention_decode(q, k, v, seqused_k=used)
    for b, n in enumerate(used.tolist()):
        one = [x[b : b + 1] for x in (q, k[:, :, :n], v[:, :, :n])]
        want = reference.attention(*(x.double() for x in one), mask="causal_bottom_right")[0]
        low = reference.attention(*one, mask="causal_bottom_right")[0]
        within(out[b : b + 1], low, want)


def row_cases(dtype):
    x, y = random(4, 33, 8, 1024, dtype=dtype), random(4, 33, 8, 1024, dtype=dtype)
    w, b = random(1024, dtype=dtype), random(1024, dtype=dtype)
    norm = torch.nn.functional
    return {
        "rms_norm": (lambda x, w: sy.rms_norm(x, w), lambda x, w: norm.rms_norm(x, (1024,), w, 1e-6), (x, w)),
        "layer_norm": (sy.layer_norm, lambda x, w, b: norm.layer_norm(x, (1024,), w, b, 1e-5), (x, w, b)),
        "swiglu": (sy.gated_activation, lambda x, y: norm.silu(x) * y, (x, y)),
        "softmax": (sy.softmax, lambda x: torch.softmax(x, -1), (x,)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "swiglu", "softmax"])
def test_rows(dtype, name):
    mine, theirs, inputs = row_cases(dtype)[name]
    out = mine(*inputs)
    grad = torch.randn_like(out)
    results = [[out, *torch.autograd.grad(out, inputs, grad)]]
    for kind in (dtype, torch.float64):
        leaves = [x.detach().to(kind).requires_grad_() for x in inputs]
        result = theirs(*leaves)
        results.append([result, *torch.autograd.grad(result, leaves, grad.to(kind))])
    for a, b, c in zip(*results, strict=True):
        within(a, b, c)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rotary(dtype):
    q, k = [random(2, 65, h, 128, dtype=dtype).transpose(1, 2) for h in (8, 2)]
    angle = torch.randn(65, 64, device="cuda")
    got = sy.rotary(q, k, angle.cos(), angle.sin())
    for x, y in zip((q, k), got):
        a, b = x.double().chunk(2, -1)
        cos, sin = angle.double().cos(), angle.double().sin()
        want = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        assert (y.double() - want).abs().max() <= want.abs().max() * torch.finfo(dtype).eps
    back = torch.autograd.grad(got, (q, k), got)
    for x, y in zip((q, k), back):  # turned there and back
        assert (x - y).abs().max() <= 4 * torch.finfo(dtype).eps * x.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, *DTYPES])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary_dim", [16, 48, 58])
def test_rotary_of_heads_of_an_odd_size(dtype, interleaved, rotary_dim):
    """What is behind the rotation is no whole number of pairs: the next head lies where the last one would end."""
    q = random(2, 33, 5, 59, dtype=dtype).detach()
    angle = torch.randn(33, rotary_dim // 2, device="cuda")
    tables = angle.cos().to(dtype), angle.sin().to(dtype)
    style = "interleaved" if interleaved else "half"
    places = torch.arange(33, device="cuda")
    for cos, sin in (tables, [table.float() for table in tables]):
        got = sy.rotary(q.transpose(1, 2), None, cos, sin, rotary_dim=rotary_dim, style=style).transpose(1, 2)
        want = torch.stack([turned(x.double(), cos, sin, places, interleaved) for x in q])
        assert (got.double() - want).abs().max() <= want.abs().max() * 2 * torch.finfo(dtype).eps
    computed = sy.rotary(q.transpose(1, 2), rotary_dim=rotary_dim, style=style).transpose(1, 2)
    pairs = torch.arange(rotary_dim // 2, device="cuda", dtype=torch.float64)
    angle = places[:, None] * 10000.0 ** (-2 * pairs / rotary_dim)
    want = torch.stack([turned(x.double(), angle.cos(), angle.sin(), places, interleaved) for x in q])
    assert (computed.double() - want).abs().max() <= want.abs().max() * max(torch.finfo(dtype).eps, 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [32, 59, 80, 128, 256])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("queries", [1, 7, 64])
def test_cache(dtype, dim, interleaved, paged, queries):
    """Of flash_attn: new keys turned and appended, and attention to all."""
    used, new, half = [0, 511], min(queries, 5), dim // 32 * 8
    q, k, v = [random(2, n, h, dim, dtype=dtype).detach() for n, h in ((queries, 6), (new, 2), (new, 2))]
    table = torch.tensor([[3, 0, 6, 1], [2, 7, 5, 4]], dtype=torch.int32, device="cuda")
    caches = [random(*((8, 256) if paged else (2, 1024)), 2, dim, dtype=dtype).detach() for _ in range(2)]
    before = [cache[table.long()].flatten(1, 2) if paged else cache.clone() for cache in caches]
    angle = torch.randn(1024, half, device="cuda")
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    out = flash_attn_with_kvcache(q, *caches, k, v, cos, sin, torch.tensor(used, dtype=torch.int32, device="cuda"),
                                  block_table=table if paged else None, causal=True, rotary_interleaved=interleaved)  # fmt: skip
    written = [cache[table.long()].flatten(1, 2) if paged else cache for cache in caches]
    for b, length in enumerate(used):
        places = length + torch.arange(max(queries, new), device="cuda")
        one_q = turned(q[b].double(), cos, sin, places[:queries], interleaved)
        one_k = turned(k[b].double(), cos, sin, places[:new], interleaved)
        here = slice(length, length + new)
        assert (written[0][b, here].double() - one_k).abs().max() <= one_k.abs().max() * torch.finfo(dtype).eps
        assert torch.equal(written[1][b, here], v[b])
        keys, values = (torch.cat([old[b, :length].double(), added]) for old, added in zip(before, (one_k, v[b]), strict=True))
        one = [x.transpose(0, 1)[None] for x in (one_q, keys, values)]
        want = reference.attention(*one, mask="causal_bottom_right")[0]
        low = reference.attention(*(x.to(dtype) for x in one), mask="causal_bottom_right")[0]
        within(out[b].transpose(0, 1)[None], low, want, 3.0)
        for mine, old in zip(written, before, strict=True):
            assert torch.equal(mine[b, :length], old[b, :length])
            assert torch.equal(mine[b, length + new :], old[b, length + new :])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [59, 64, 128])
@pytest.mark.parametrize("leftpad", [None, [3, 90]])
@pytest.mark.parametrize("queries", [3, 128])
def test_cache_with_slopes_of_sequences(dtype, dim, leftpad, queries):
    """Where queries are more than keys, the first are far from all of them."""
    used, slopes = [5, 100], torch.rand(2, 6, device="cuda") * 0.3
    q, k, v = [random(2, n, h, dim, dtype=dtype).detach() for n, h in ((queries, 6), (128, 2), (128, 2))]
    given = None if leftpad is None else torch.tensor(leftpad, dtype=torch.int32, device="cuda")
    out = flash_attn_with_kvcache(q, k, v, cache_seqlens=torch.tensor(used, dtype=torch.int32, device="cuda"),
                                  cache_leftpad=given, alibi_slopes=slopes)  # fmt: skip
    for b, (first, length) in enumerate(zip(leftpad or [0, 0], used, strict=True)):
        one = [x.transpose(0, 1)[None] for x in (q[b], k[b, first:length], v[b, first:length])]
        want = reference.attention(*(x.double() for x in one), alibi=slopes[b].double())[0]
        low = reference.attention(*(x.float() for x in one), alibi=slopes[b])[0].to(dtype)
        within(out[b].transpose(0, 1)[None], low, want, 3.0)


@pytest.mark.parametrize("name", ["attention_forward", "rms_norm", "layer_norm", "gated_activation", "softmax", "rotary"])
def test_opcheck(name):
    bf16 = torch.bfloat16
    q, k = random(2, 4, 32, 64, dtype=bf16), random(2, 2, 32, 64, dtype=bf16)
    x, angle = random(6, 256, dtype=bf16), torch.randn(32, 32, device="cuda")
    args, kwargs = {
        "attention_forward": ((q, k, k), {"mask": 2, "with_lse": True}),
        "rms_norm": ((x,), {"with_statistics": True}),
        "layer_norm": ((x,), {"with_statistics": True}),
        "gated_activation": ((x, x), {}),
        "softmax": ((x,), {}),
        "rotary": ((q, k, angle.cos(), angle.sin()), {}),
    }[name]
    torch.library.opcheck(getattr(torch.ops.switchyard, name).default, args, kwargs)


def step(q, k, v, w, cos, sin):
    q, k = sy.rotary(sy.rms_norm(q, w), sy.rms_norm(k, w), cos, sin)
    return sy.attention(q, k, v, causal=True)


def inputs_of_step():
    bf16 = torch.bfloat16
    angle = torch.randn(256, 64, device="cuda")
    return [random(1, 8, 256, 128, dtype=bf16), random(1, 2, 256, 128, dtype=bf16), random(1, 2, 256, 128, dtype=bf16),
            random(128, dtype=bf16), angle.cos(), angle.sin()]  # fmt: skip


def test_cuda_graph():
    inputs = inputs_of_step()

    def both():
        out = step(*inputs)
        return [out, *torch.autograd.grad(out, inputs[:4], torch.ones_like(out))]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        both()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = both()
    with torch.no_grad():
        for tensor in inputs[:4]:
            tensor.copy_(torch.randn_like(tensor))
    graph.replay()
    for mine, theirs in zip(captured, both(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)


FIRST_USE_IN_A_CAPTURE = """
import torch, switchyard.torch as sy

def step(x, w, q, k):
    out = sy.attention(sy.rms_norm(q, w), k, k, causal=True)
    return [sy.softmax(x), out, *torch.autograd.grad(out, (q, k), torch.ones_like(out))]

def random(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

x, w = random(3, 12352), random(64)
q, k = random(1, 4, 200, 64).requires_grad_(), random(1, 2, 200, 64).requires_grad_()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step(x, w, q, k)
with torch.no_grad():
    for tensor in (x, q, k):
        tensor.copy_(random(*tensor.shape))
graph.replay()
for mine, theirs in zip(captured, step(x, w, q, k), strict=True):
    torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)
torch.testing.assert_close(captured[0], torch.softmax(x, -1), rtol=2e-2, atol=1e-3)
print("replayed", len(captured))
"""


def test_a_capture_loads_what_it_needs():
    """In a process of its own, whose first calls are captured, forward and backward."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE_IN_A_CAPTURE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "replayed 4\n"


def test_no_synchronisation():
    inputs = inputs_of_step()
    step(*inputs).sum().backward()
    used = torch.tensor([200], dtype=torch.int32, device="cuda")
    sy.attention(*inputs[:3], seqused_k=used, dropout_p=0.1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = step(*inputs)
        torch.autograd.grad(out, inputs[:4], torch.ones_like(out))
        sy.attention(*inputs[:3], seqused_k=used, dropout_p=0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_streams():
    """A call runs on torch's current stream: a long one before it on that stream is waited for."""
    x = torch.zeros(4096, 4096, device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.fill_(1)
        out = sy.gated_activation(x, x)
    stream.synchronize()
    torch.testing.assert_close(out, torch.nn.functional.silu(x) * x)


def test_compile():
    inputs = inputs_of_step()
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), step(*inputs), rtol=2e-2, atol=2e-2)
