# SPDX-License-Identifier: MIT
"""Calls at the edges of what is legal: memory that belongs to no sequence, numbers that are no finite ones, far and strided
memory, and what is refused there."""

import math

import pytest
import reference
import switchyard.flash_attn as fa
import switchyard.torch as sy
import torch
from test_attention import compare, pages_of, tensors
from test_rows import judge_layer

HALF = torch.bfloat16
DTYPES = {torch.float32: 3e-6, HALF: 1e-2}


@pytest.fixture
def poisoned():
    """New memory holds NaN until it is written."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("sinks", [False, True])
def test_tokens_behind_the_last_sequence(poisoned, sinks):
    """They are padding: zeros, with gradients of zero, and the others have the gradients that they have without them."""
    q, k, v = given = [torch.randn(12, heads, 16, requires_grad=True) for heads in (4, 2, 2)]
    sink = torch.randn(4, requires_grad=True) if sinks else None
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)
    wanted = [*given, sink] if sinks else given
    run = lambda *x: sy.attention_varlen(*x, cu, cu, 5, 5, sinks=sink, return_lse=True)
    (out, lse), (want, want_lse) = run(*given), run(*(x[:9] for x in given))
    assert torch.equal(out[:9], want) and torch.equal(lse[:, :9], want_lse)
    assert torch.equal(out[9:], torch.zeros(3, 4, 16)) and torch.equal(lse[:, 9:], torch.zeros(4, 3))
    grad = torch.randn_like(out)
    pairs = zip(torch.autograd.grad(out, wanted, grad), torch.autograd.grad(want, wanted, grad[:9]), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs)
    with torch.no_grad():
        assert torch.equal(sy.attention_varlen(*given, cu, cu, 5, 5)[9:], torch.zeros(3, 4, 16))
    turned, other = sy.rotary(q, k, cu_seqlens=cu, longest=5)
    assert torch.equal(turned[9:], torch.zeros(3, 4, 16)) and torch.equal(other[9:], torch.zeros(3, 2, 16))
    assert torch.autograd.grad(turned.sum(), q)[0].isfinite().all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_the_lse_of_no_query_is_not_the_sinks(packed, used):
    """A loss may contain the whole LSE."""
    q, k = torch.randn(2, 4, 6, 16), torch.randn(2, 2, 6, 16)
    lengths = [2, 5] if used else [6, 6]
    sinks = torch.randn(4, requires_grad=True)
    wide = sinks.detach().double().requires_grad_()
    want = sum(reference.attention(q[b : b + 1, :, :n].double(), k[b : b + 1].double(), k[b : b + 1].double(),
                                   sinks=wide)[1].sum() for b, n in enumerate(lengths))  # fmt: skip
    seqused = torch.tensor(lengths, dtype=torch.int32) if used else None
    if packed:
        cu, pack = (
            torch.tensor([0, 6, 12], dtype=torch.int32),
            lambda x: torch.cat([*x.transpose(1, 2), x[0, :, :3].transpose(0, 1)]),
        )
        _, lse = torch.ops.switchyard.attention_forward(
            pack(q), pack(k), pack(k), sinks=sinks, cu_seqlens_q=cu, cu_seqlens_k=cu, seqused_q=seqused, longest_q=6, longest_k=6,
            with_lse=True)  # fmt: skip
    else:
        _, lse = sy.attention(q, k, k, sinks=sinks, seqused_q=seqused, return_lse=True)
    compare(torch.autograd.grad(lse.sum(), sinks)[0], torch.autograd.grad(want, wide)[0], 1e-5)


SPARSE = {  # q's lengths, k's
    "queries alone": ([3, 0, 5], [0, 0, 7]),
    "keys alone": ([0, 2, 0, 1], [4, 2, 3, 5]),
    "one of each": ([1, 0, 1], [1, 3, 0]),
}


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("causal", [False, True])
def test_sequences_without_queries_or_keys(poisoned, name, causal):
    lengths = SPARSE[name]
    cu = [torch.tensor([0, *each]).cumsum(0).int() for each in lengths]
    q, k, v = given = [torch.randn(sum(lengths[i > 0]), (4, 2, 2)[i], 16, requires_grad=True) for i in range(3)]
    out, lse = sy.attention_varlen(q, k, v, *cu, max(lengths[0]), max(lengths[1]), causal=causal, return_lse=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    parts = zip(*(tensor.split(lengths[i > 0]) for i, tensor in enumerate(wide)), strict=True)
    found = [reference.attention(*(tensor.transpose(0, 1)[None] for tensor in part),
                                 mask="causal_bottom_right" if causal else "none") for part in parts]  # fmt: skip
    want = torch.cat([part[0].transpose(0, 1) for part, _ in found])
    compare(out, want)
    torch.testing.assert_close(lse.double(), torch.cat([part[0] for _, part in found], 1), rtol=1e-5, atol=1e-5)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, given, grad), torch.autograd.grad(want, wide, grad.double()), strict=True):
        compare(mine, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sink_of_nothing(dtype):
    """-infinity is no sink, also in rows that see no key."""
    q, k, v = given = tensors(n=9, m=5, d=64, dv=64, dtype=dtype)
    sinks = torch.full((4,), -torch.inf, requires_grad=True)
    run = lambda **options: sy.attention(q, k, v, causal=True, return_lse=True, **options)
    (out, lse), (want, want_lse) = run(sinks=sinks), run()
    assert torch.equal(out, want) and torch.equal(lse, want_lse)
    grads = torch.autograd.grad(out.sum(), [*given, sinks])
    assert torch.equal(grads[3], torch.zeros(4))
    for mine, theirs in zip(grads, torch.autograd.grad(want.sum(), given)):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("kind", ["-inf", "lowest"])
def test_a_bias_that_hides_a_row(dtype, kind):
    """The type's lowest number counts as -infinity: in units of log2 it is one."""
    q, k, v = given = tensors(n=5, m=70, d=64, dv=64, dtype=dtype)
    hidden = -torch.inf if kind == "-inf" else torch.finfo(dtype).min
    bias = torch.randn(1, 1, 5, 70).to(dtype)
    bias[..., 2, :], bias[..., 3, :40] = hidden, hidden
    bias.requires_grad_()
    out, lse = sy.attention(q, k, v, bias=bias, return_lse=True)
    assert torch.equal(out[:, :, 2], torch.zeros(2, 4, 64, dtype=dtype)) and torch.isneginf(lse[:, :, 2]).all()
    seen = [0, 1, 3, 4]
    wide = [tensor.detach().double().requires_grad_() for tensor in (q[:, :, seen], k, v, bias[:, :, seen])]
    want, _ = reference.attention(*wide[:3], bias=wide[3].masked_fill(bias[:, :, seen] == hidden, -torch.inf))
    compare(out[:, :, seen], want, DTYPES[dtype])
    grad = torch.randn_like(out)
    of_q, of_k, of_v, of_bias = torch.autograd.grad(out, (*given, bias), grad)
    mine = of_q[:, :, seen], of_k, of_v, of_bias[:, :, seen]
    for one, judged in zip(mine, torch.autograd.grad(want, wide, grad[:, :, seen].double()), strict=True):
        compare(one, judged, 3 * DTYPES[dtype])
    assert not of_q[:, :, 2].any() and not of_bias[:, :, 2].any()


@pytest.mark.parametrize("dtype", [torch.float32, HALF, torch.float16])
@pytest.mark.parametrize("place", [0, 63, 64, 77, 129])
def test_a_nan_is_not_lost(dtype, place):
    """A key's reaches its head's queries, a value's its column, a query's its row; no other head's."""
    q, k, v = (tensor.detach() for tensor in tensors(b=1, n=70, m=130, d=64, dv=64, dtype=dtype))
    runs = [lambda q, k, v: sy.attention(q, k, v, return_lse=True)]
    if dtype != torch.float32:
        runs.append(lambda q, k, v: sy.attention_decode(q[:, :, -16:], k, v, causal=False, return_lse=True))
    for run in runs:
        wrong = [tensor.clone() for tensor in (q, k, v)]
        for tensor in wrong:
            tensor[0, 0, min(place, tensor.shape[2] - 1), 3] = math.nan
        out, lse = run(q, wrong[1], v)
        assert out[0, :2].isnan().all() and lse[0, :2].isnan().all() and out[0, 2:].isfinite().all()
        out, _ = run(q, k, wrong[2])
        assert out[0, :2, :, 3].isnan().all() and out[0, :2, :, 4:].isfinite().all() and out[0, 2:].isfinite().all()
    row = min(place, 69)
    out, lse = sy.attention(wrong[0], k, v, return_lse=True)
    assert out[0, 0, row].isnan().all() and lse[0, 0, row].isnan() and out[0, 1:].isfinite().all()


COLUMNS = {  # shapes of biases, which are broadcast to [2, 4, 13, 19]
    "keys": (2, 4, 13, 1), "all": (1, 1, 1, 1), "number": (), "one": (1,), "queries": (13, 1), "heads": (4, 1, 19),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("is_mask", [False, True])
def test_a_bias_of_one_column(name, is_mask):
    q, k, v = given = tensors()
    shape = COLUMNS[name]
    bias = torch.rand(shape) < 0.7 if is_mask else torch.randn(shape, requires_grad=True)
    wanted = given if is_mask else [*given, bias]
    wide = [tensor.detach().double().requires_grad_() for tensor in wanted]
    added = torch.zeros(shape, dtype=torch.float64).masked_fill(~bias, -torch.inf) if is_mask else wide[3]
    out, (want, _) = sy.attention(q, k, v, bias=bias), reference.attention(*wide[:3], bias=added)
    compare(out, want)
    if is_mask:  # of rows that it hides the reference has gradients of NaN
        return
    grad = torch.randn_like(out)
    for mine, theirs in zip(
        torch.autograd.grad(out, wanted, grad), torch.autograd.grad(want, wide, grad.double()), strict=True
    ):
        compare(mine, theirs, 1e-5)


def spread(x, how):
    """The same numbers with gaps between them."""
    if how == "expanded":
        return x.flatten()[:1].expand(x.shape)
    return torch.stack([x, torch.full_like(x, 97)], -1)[..., 0]


FEW = {  # calls of one tensor of few numbers
    "sinks": (torch.randn(4), lambda x: sy.attention(Q, Q, Q, sinks=x)),
    "slopes": (torch.rand(4), lambda x: sy.attention(Q, Q, Q, alibi_slopes=x)),
    "lengths": (torch.tensor([3, 5], dtype=torch.int32), lambda x: sy.attention(Q, Q, Q, seqused_k=x)),
    "cu_seqlens": (torch.tensor([0, 3, 5], dtype=torch.int32), lambda x: sy.attention_varlen(P, P, P, x, x, 5, 5)),
    "weight": (torch.randn(32), lambda x: sy.rms_norm(Q, x)),
    "norm's bias": (torch.randn(32), lambda x: sy.layer_norm(Q, None, x)),
    "positions": (torch.randint(9, (2, 5)), lambda x: sy.rotary(Q, positions=x)),
    "offsets": (torch.tensor([3, 7], dtype=torch.int32), lambda x: sy.rotary(Q, sequence_offsets=x)),
    "cos": (torch.rand(5, 16), lambda x: sy.rotary(Q, None, x, x)),
    "state": (torch.tensor([3, 7]), lambda x: sy.attention(Q, Q, Q, dropout_p=0.5, dropout_state=x)),
    "pages": (torch.tensor([[1, 2], [0, 1]], dtype=torch.int32),
              lambda x: sy.attention_decode(H, PAGES, PAGES, block_table=x, seqused_k=torch.tensor([9, 14]))),
    "scales": (torch.rand(2), lambda x: sy.attention_decode(H, E, E, k_scale=x)),
}  # fmt: skip
Q, P = torch.randn(2, 4, 5, 32), torch.randn(5, 4, 32)
H, E = torch.randn(2, 4, 1, 64).to(HALF), torch.randn(2, 2, 9, 64).to(torch.float8_e4m3fn)
PAGES = torch.randn(3, 8, 2, 64).to(HALF)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("how", ["gaps", "expanded"])
def test_few_numbers_may_have_any_strides(name, how):
    numbers, call = FEW[name]
    if name == "cu_seqlens" and how == "expanded":
        pytest.skip("the numbers must not be equal")
    given = spread(numbers, how)
    assert not given.is_contiguous()
    assert torch.equal(call(given), call(given.contiguous()))


def test_positions_of_all_sequences_are_expanded():
    row = torch.tensor([[4, 9, 1, 0, 7]])
    assert torch.equal(sy.rotary(Q, positions=row.expand(2, 5)), sy.rotary(Q, positions=row.repeat(2, 1)))


def test_unused_pages_may_be_anything():
    k = torch.randn(2, 2, 30, 64).to(HALF)
    pages, table = pages_of(k, 16)
    used = torch.tensor([30, 5], dtype=torch.int32)
    wild = torch.cat([table, torch.tensor([[-1], [2**31 - 1]], dtype=torch.int32)], 1)
    wild[1, 1] = -7
    for run in (sy.attention, sy.attention_decode):
        assert torch.equal(run(H, pages, pages, block_table=wild, seqused_k=used),
                           run(H, pages, pages, block_table=table, seqused_k=used))  # fmt: skip


REFUSED = {
    "window_left must fit 32 bits: it is 1099511627776": lambda: sy.attention(Q, Q, Q, window=(2**40, 0)),
    "window_right must fit 32 bits: it is 2147483648": lambda: sy.attention(Q, Q, Q, window=(3, 2**31)),
    "scale must be a number, not nan": lambda: sy.attention(Q, Q, Q, scale=math.nan),
    "scale must be finite": lambda: sy.attention(Q, Q, Q, scale=1e300),
    "a bias of torch.int64: pass numbers to add to scores, or a mask of torch.bool": lambda: sy.attention(
        Q, Q, Q, bias=torch.ones(5, 5, dtype=torch.int64)
    ),
    "block_mask must be a torch.nn.attention.flex_attention.BlockMask, not Tensor": lambda: sy.attention(Q, Q, Q, block_mask=P),
    r"residual has another shape than the first tensor: \[32\] instead of \[5, 4, 32\]": lambda: sy.rms_norm(P, None, P[0, 0]),
    "switchyard::layer_norm: the tensors are on several devices: cpu, meta": lambda: sy.layer_norm(
        P, torch.ones(32, device="meta")
    ),
    r"q must be \[batch, seqlen, heads, head_dim\], not \[5, 4, 32\]": lambda: fa.flash_attn_func(P, P, P),
    "softmax: x has an element type that no operator takes": lambda: sy.softmax(P > 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_numbers_that_are_refused(message):
    with pytest.raises((RuntimeError, TypeError), match=message):
        REFUSED[message]()


def test_a_window_of_31_bits_or_none():
    q = Q.transpose(1, 2)
    assert torch.equal(fa.flash_attn_func(q, q, q, window_size=(None, 0)), fa.flash_attn_func(q, q, q, causal=True))
    assert torch.equal(sy.attention(Q, Q, Q, window=(2**31 - 1, 0)), sy.attention(Q, Q, Q, causal=True))


def test_far_memory(tmp_path):
    """Strides of more than 2^31 elements, in a file of holes."""
    step = 2**31 + 4096
    memory = torch.from_file(str(tmp_path / "memory"), shared=True, size=step + 2**20, dtype=HALF)

    def far(x):
        out = memory.as_strided(x.shape, (step, *x.stride()[1:]))
        out.copy_(x)
        return out

    q, k, v = (torch.randn(2, 2, 5, 64).to(HALF) for _ in range(3))
    want = sy.attention(q, k, v)
    for i in range(3):
        given = [far(x) if j == i else x for j, x in enumerate((q, k, v))]
        assert torch.equal(sy.attention(*given), want)
    near, there = (x.detach().requires_grad_() for x in (k, far(k)))
    grads = [torch.autograd.grad(sy.attention(q, x, v).sum(), x)[0] for x in (near, there)]
    assert torch.equal(*grads)
    assert torch.equal(sy.attention_decode(q, far(k), v), sy.attention_decode(q, k, v))
    x = torch.randn(2, 64).to(HALF)
    for run in (sy.rms_norm, sy.softmax, lambda x: sy.gated_activation(x, x)):
        assert torch.equal(run(far(x)), run(x))


def test_very_many_sequences_and_heads():
    """More than the 65,535 blocks that some dimensions of a grid have."""
    q = torch.randn(70_000, 1, 2, 8)
    compare(sy.attention(q, q, q), reference.attention(*[q.double()] * 3)[0])
    packed, cu = q.flatten(0, 2)[:, None], torch.arange(0, 140_001, 2)
    assert torch.equal(sy.attention_varlen(packed, packed, packed, cu, cu, 2, 2).view_as(q), sy.attention(q, q, q))
    q = q.transpose(0, 1)
    compare(sy.attention(q, q, q), reference.attention(*[q.double()] * 3)[0])


@pytest.mark.parametrize("mean", [1e3, 1e4, 1e6])
def test_layer_norm_of_far_means(mean):
    """No worse than the rounding of the numbers themselves."""
    x = (mean + torch.randn(5, 64)).requires_grad_()
    wide = x.detach().double().requires_grad_()
    out, want, grad = sy.layer_norm(x), judge_layer(wide), torch.randn(5, 64)
    compare(out, want, 2e-7 * mean)
    compare(torch.autograd.grad(out, x, grad)[0], torch.autograd.grad(want, wide, grad.double())[0], 2e-7 * mean)


ACTIVATIONS = {
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: x / 2 * torch.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
}


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activations_of_far_numbers(function):
    """Nothing overflows, and the tail of negative numbers keeps its digits."""
    far = torch.tensor([0.0, 1e-30, 3.0, 6.0, 20.0, 89.0, 104.0, 1e4, 1e10])
    x = torch.cat([far, -far]).requires_grad_()
    wide = x.detach().double().requires_grad_()
    out, want = sy.gated_activation(x, torch.ones_like(x), function=function), ACTIVATIONS[function](wide)
    torch.testing.assert_close(out.double(), want, rtol=1e-2, atol=1e-26)
    (grad,), (judged,) = torch.autograd.grad(out.sum(), x), torch.autograd.grad(want.sum(), wide)
    torch.testing.assert_close(grad.double(), judged, rtol=1e-3, atol=1e-8)
