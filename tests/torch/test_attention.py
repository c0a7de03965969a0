# SPDX-License-Identifier: MIT
"""Attention and its gradients on the shipped f32 CPU kernels against float64."""

import pytest
import reference
import switchyard.torch as sy
import torch

CASES = {
    "full": {},
    "causal": {"causal": True},
    "top_left": {"causal": "causal_top_left"},
    "window": {"causal": True, "window": (5, -1)},
    "two_sided_window": {"window": (4, 3)},
    "soft_cap": {"causal": True, "soft_cap": 7.0},
    "scale": {"scale": 0.3},
}
MASKS = {True: "causal_bottom_right", False: "none"}


def tensors(b=2, h=4, h_kv=2, n=13, m=19, d=24, dv=24, dtype=torch.float32):
    shapes = (b, h, n, d), (b, h_kv, m, d), (b, h_kv, m, dv)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def compare(got, want, tolerance=3e-6):
    scale = max(1.0, want.abs().max().item())
    assert (got.double() - want).abs().max().item() <= tolerance * scale


def judged(options):
    out = dict(options)
    causal = out.pop("causal", False)
    out["mask"] = MASKS.get(causal, causal)
    return out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [{}, {"h_kv": 4}, {"h_kv": 1, "n": 1}, {"n": 33, "m": 33, "d": 64, "dv": 32}])
def test_gradients(name, sizes):
    q, k, v = tensors(**sizes)
    options = CASES[name]
    out, lse = sy.attention(q, k, v, **options, return_lse=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    want, want_lse = reference.attention(*wide, **judged(options))
    compare(out, want)
    compare(lse, want_lse)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, (q, k, v), grad)
    for mine, theirs in zip(got, torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs)


def test_strides_need_no_order():
    q, k, v = tensors(n=9, m=9)
    parts = torch.randn(2, 9, 3, 4, 24).unbind(2)  # a fused projection's [batch, seqlen, 3, heads, dim]
    q, k, v = [tensor.transpose(1, 2) for tensor in parts]
    compare(sy.attention(q, k, v), reference.attention(q.double(), k.double(), v.double())[0])
    odd = torch.randn(2, 4, 24, 9).transpose(2, 3)  # the innermost dimension is strided: copied
    compare(sy.attention(odd, k, v), reference.attention(odd.double(), k.double(), v.double())[0])


@pytest.mark.parametrize("shape", [(2, 4, 13, 19), (1, 4, 13, 19), (2, 1, 1, 19), (19,)])
def test_bias_has_a_gradient(shape):
    q, k, v = tensors()
    bias = torch.randn(shape, requires_grad=True)
    out = sy.attention(q, k, v, bias=bias)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v, bias)]
    want, _ = reference.attention(*wide[:3], bias=wide[3])
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v, bias), grad), torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs, 1e-5)


def test_boolean_mask_that_hides_a_row():
    q, k, v = tensors()
    seen = torch.rand(2, 1, 13, 19) < 0.5
    seen[1, 0, 4] = False
    bias = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    compare(sy.attention(q, k, v, bias=seen), reference.attention(q.double(), k.double(), v.double(), bias=bias)[0])


@pytest.mark.parametrize("causal", [False, True])
def test_sinks_have_a_gradient(causal):
    q, k, v = tensors()
    sinks = torch.randn(4, requires_grad=True)
    out = sy.attention(q, k, v, causal=causal, sinks=sinks)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v, sinks)]
    want, _ = reference.attention(*wide[:3], mask=MASKS[causal], sinks=wide[3])
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v, sinks), grad), torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs, 1e-5)


def test_alibi():
    q, k, v = tensors()
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    want, _ = reference.attention(q.double(), k.double(), v.double(), mask="causal_bottom_right", alibi=slopes.double())
    compare(sy.attention(q, k, v, causal=True, alibi_slopes=slopes), want)


def test_dropout_drops_what_the_mask_says():
    q, k, v = tensors()
    state = torch.tensor([11, 22])
    out = sy.attention(q, k, v, dropout_p=0.3, dropout_state=state)
    kept = sy.attention_dropout_mask(state, 2, 4, 13, 19, 0.3)
    assert 0.1 < (kept == 0).double().mean() < 0.5
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    want, _ = reference.attention(*wide, kept=kept.double())
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs, 1e-5)


def test_dropout_follows_torchs_generator():
    q, k, v = tensors()
    draw = lambda: sy.attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    first, second = draw(), draw()
    torch.manual_seed(5)
    assert torch.equal(first, draw()) and not torch.equal(first, second)


@pytest.mark.parametrize("lengths", [[7, 1, 12], [0, 5]])
def test_packed_sequences(lengths):
    total = sum(lengths)
    cu = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    q, k, v = [torch.randn(total, h, 16, requires_grad=True) for h in (4, 2, 2)]
    out = sy.attention_varlen(q, k, v, cu, cu, max(lengths), max(lengths), causal=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    parts, begin = [], 0
    for length in lengths:
        one = [x[begin : begin + length].transpose(0, 1)[None] for x in wide]
        if length:
            parts.append(reference.attention(*one, mask="causal_bottom_right")[0][0].transpose(0, 1))
        begin += length
    want = torch.cat(parts)
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs)


def test_keys_in_use():
    q, k, v = tensors(n=3)
    used = torch.tensor([5, 19], dtype=torch.int32)
    out = sy.attention(q, k, v, causal=True, seqused_k=used)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    parts = [reference.attention(*(x[b : b + 1, :, : (None if i == 0 else n)] for i, x in enumerate(wide)),
                                mask="causal_bottom_right")[0] for b, n in enumerate(used.tolist())]  # fmt: skip
    want = torch.cat(parts)
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(want, wide, grad.double())):
        compare(mine, theirs)


def pages_of(x, size):
    """[B, H, M, D] in pages in another order than they were: [pages, size, H, D] and the block table."""
    b, h, m, d = x.shape
    count = -(-m // size)
    padded = torch.zeros(b, h, count * size, d, dtype=x.dtype)
    padded[:, :, :m] = x.detach()
    pages = padded.reshape(b, h, count, size, d).permute(0, 2, 3, 1, 4).reshape(b * count, size, h, d)
    order = torch.randperm(b * count)
    out = torch.empty_like(pages)
    out[order] = pages
    return out, order.reshape(b, count).to(torch.int32)


def test_pages():
    q, k, v = tensors(n=2)
    torch.manual_seed(1)
    k_pages, table = pages_of(k, 8)
    torch.manual_seed(1)
    v_pages, _ = pages_of(v, 8)
    used = torch.tensor([11, 19], dtype=torch.int32)
    with torch.no_grad():
        out = sy.attention(q, k_pages, v_pages, causal=True, block_table=table, seqused_k=used)
        for b, n in enumerate(used.tolist()):
            one = [x[b : b + 1].double() for x in (q, k[:, :, :n], v[:, :, :n])]
            compare(out[b : b + 1], reference.attention(*one, mask="causal_bottom_right")[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("paged", [False, True])
def test_decode(dtype, paged):
    q, k, v = [x.detach() for x in tensors(n=2, m=40, d=64, dv=64, dtype=dtype)]
    used = torch.tensor([17, 40], dtype=torch.int32)
    torch.manual_seed(1)
    keys, table = pages_of(k, 16) if paged else (k, None)
    torch.manual_seed(1)
    values = pages_of(v, 16)[0] if paged else v
    out = sy.attention_decode(q, keys, values, seqused_k=used, block_table=table, soft_cap=9.0)
    for b, n in enumerate(used.tolist()):
        one = [x[b : b + 1].double() for x in (q, k[:, :, :n], v[:, :, :n])]
        want = reference.attention(*one, mask="causal_bottom_right", soft_cap=9.0)[0]
        compare(out[b : b + 1], want, 1e-2)


@pytest.mark.parametrize("paged", [False, True])
def test_latent_decode(paged):
    torch.manual_seed(3)
    q = torch.randn(2, 16, 2, 576, dtype=torch.bfloat16)
    latent = torch.randn(2, 1, 70, 576, dtype=torch.bfloat16)
    used = torch.tensor([33, 70], dtype=torch.int32)
    keys, table = pages_of(latent, 64) if paged else (latent, None)
    out, lse = sy.attention_decode(q, keys, keys[..., :512], seqused_k=used, block_table=table, scale=0.1, return_lse=True)
    for b, n in enumerate(used.tolist()):
        one = [x[b : b + 1, :, :n].double() for x in (latent, latent[..., :512])]
        want, want_lse = reference.attention(q[b : b + 1].double(), *one, mask="causal_bottom_right", scale=0.1)
        compare(out[b : b + 1], want, 1e-2)
        torch.testing.assert_close(lse[b : b + 1].double(), want_lse, rtol=1e-4, atol=1e-4)


def fp8_ds_mla(latent):
    """[B, 1, M, 576] in rows of 656 bytes, as FlashMLA stores them, and the numbers that those stand for."""
    groups = latent[..., :512].unflatten(-1, (4, 128))
    scales = groups.abs().amax(-1).float() / 448
    narrow = (groups / scales[..., None]).to(torch.float8_e4m3fn)
    rotary = latent[..., 512:].to(torch.bfloat16)
    parts = narrow.flatten(-2), scales, rotary
    rows = torch.cat([part.contiguous().view(torch.uint8) for part in parts], -1)
    return rows, torch.cat([(narrow.double() * scales[..., None].double()).flatten(-2), rotary.double()], -1)


@pytest.mark.parametrize("paged", [False, True])
def test_latent_decode_with_rotary_columns_apart(paged):
    torch.manual_seed(3)
    q = torch.randn(2, 16, 2, 576, dtype=torch.bfloat16)
    rows, latent = fp8_ds_mla(torch.randn(2, 1, 70, 576))
    assert rows.shape[-1] == 656
    used = torch.tensor([33, 70], dtype=torch.int32)
    cache, table = pages_of(rows, 64) if paged else (rows, None)
    tokens = cache[:, :, 0] if paged else cache[:, 0]
    keys = cache[..., :512].view(torch.float8_e4m3fn)
    scales, rotary = tokens[..., 512:528].view(torch.float32), tokens[..., 528:].view(torch.bfloat16)
    given = {"seqused_k": used, "block_table": table, "scale": 0.1, "k_scale": scales, "k_rotary": rotary}
    out, lse = sy.attention_decode(q, keys, keys, **given, return_lse=True)
    assert out.shape == (2, 16, 2, 512)
    for b, n in enumerate(used.tolist()):
        one = [x[b : b + 1, :, :n] for x in (latent, latent[..., :512])]
        want, want_lse = reference.attention(q[b : b + 1].double(), *one, mask="causal_bottom_right", scale=0.1)
        compare(out[b : b + 1], want, 1e-2)
        torch.testing.assert_close(lse[b : b + 1].double(), want_lse, rtol=1e-4, atol=1e-4)
    apart = {**given, "k_scale": scales.clone(), "k_rotary": rotary.clone()}  # tensors of their own
    compiled = torch.compile(sy.attention_decode, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, keys, keys, **given), out)
    contiguous = keys.clone()
    assert torch.equal(sy.attention_decode(q, contiguous, contiguous, **apart), out)
    with pytest.raises(RuntimeError, match=r"k_scale \[\] has 0 dimensions instead of 3"):
        sy.attention_decode(q, keys, keys, **{**given, "k_scale": None})
    with pytest.raises(ValueError, match="v must be k with k_rotary"):
        sy.attention_decode(q, keys, contiguous, **given)
    with pytest.raises(ValueError, match="v must be k with k_rotary"):
        sy.attention_decode(q, keys, keys[:1], **given)
    with pytest.raises(RuntimeError, match="head_dim is 512, but 576 in q"):
        sy.attention_decode(q, keys, keys, **{**given, "k_scale": None, "k_rotary": None})


def test_decode_from_eight_bits():
    q, k, v = [x.detach() for x in tensors(n=1, m=40, d=64, dv=64, dtype=torch.bfloat16)]
    k8, v8 = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    scale = torch.tensor([0.5])
    want = reference.attention(q.double(), 0.5 * k8.double(), v8.double())[0]
    compare(sy.attention_decode(q, k8, v8, k_scale=scale), want, 1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_prompt_from_eight_bits(dtype):
    q, k, v = [x.detach() for x in tensors(n=19, m=40, d=64, dv=64, dtype=dtype)]
    k8, v8 = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    heads_kv = k.shape[1]
    k_scale, v_scale = torch.linspace(0.5, 1.5, heads_kv), torch.tensor([0.25])
    want = reference.attention(q.double(), k_scale[:, None, None] * k8.double(), 0.25 * v8.double())[0]
    compare(sy.attention(q, k8, v8, k_scale=k_scale, v_scale=v_scale), want, 1e-2)
    pages, table = pages_of(torch.cat([k8, v8], -1).float(), 8)
    used = torch.full((q.shape[0],), 40, dtype=torch.int32)
    paged = sy.attention(
        q, *pages.to(k8.dtype).split(64, -1), block_table=table, seqused_k=used, k_scale=k_scale, v_scale=v_scale
    )
    compare(paged, want, 1e-2)
    with pytest.raises(RuntimeError, match="k_scale and v_scale are for keys and values in f8_e4m3"):
        sy.attention(q, k, v, k_scale=k_scale)
    out = sy.attention(q.requires_grad_(), k8, v8, k_scale=k_scale)
    with pytest.raises(RuntimeError, match="no gradient for keys and values in another type"):
        out.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_all_of_eight_bits(dtype):
    q, k, v = [x.detach() for x in tensors(n=19, m=40, d=64, dv=64, dtype=dtype)]
    q8, k8, v8 = (x.to(torch.float8_e4m3fn) for x in (q, k, v))
    heads = q.shape[1]
    q_scale, k_scale, v_scale = torch.linspace(0.5, 1.5, heads), torch.tensor([0.75]), torch.tensor([0.25])
    wide_q, wide_k = q_scale[:, None, None] * q8.double(), 0.75 * k8.double()
    want, want_lse = reference.attention(wide_q, wide_k, 0.25 * v8.double())
    out, lse = sy.attention(q8, k8, v8, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, out_dtype=dtype, return_lse=True)
    assert out.dtype == dtype
    compare(out, want, 1e-2)
    compare(lse, want_lse, 1e-4)
    assert sy.attention(q8, k8, v8).dtype == torch.bfloat16
    cu_q, cu_k = (torch.tensor([0, 7, 19], dtype=torch.int32), torch.tensor([0, 25, 40], dtype=torch.int32))
    packed = sy.attention_varlen(*(x[0].transpose(0, 1) for x in (q8, k8, v8)), cu_q, cu_k, 12, 25, out_dtype=dtype)
    for (a, b), (c, d) in (((0, 7), (0, 25)), ((7, 19), (25, 40))):
        want = reference.attention(q8[:1, :, a:b].double(), k8[:1, :, c:d].double(), v8[:1, :, c:d].double())[0]
        compare(packed[a:b].transpose(0, 1)[None], want, 1e-2)
    with pytest.raises(RuntimeError, match="q_dtype f8_e4m3 goes with the kv_dtype f8_e4m3"):
        sy.attention(q8, k, v, out_dtype=dtype)
    with pytest.raises(RuntimeError, match="q_scale is for queries in f8_e4m3"):
        sy.attention(q, k8, v8, q_scale=q_scale)
    with pytest.raises(TypeError, match="out_dtype is for queries in float8_e4m3fn"):
        sy.attention(q, k, v, out_dtype=torch.float32)


def test_a_call_that_nothing_serves_says_what_would():
    q, k, v = [x.detach().double() for x in tensors()]
    with pytest.raises(RuntimeError, match=r"\[switchyard.30[12]\] attention_forward.*f32"):
        sy.attention(q, k, v)


def test_disagreeing_shapes_are_named():
    q, k, v = tensors()
    with pytest.raises(RuntimeError, match=r"\[switchyard.301\] attention_forward: .*seqlen_k"):
        sy.attention(q, k, v[:, :, :5])


def test_pages_have_no_gradient():
    q, k, v = tensors(n=2)
    pages, table = pages_of(k, 8)
    out = sy.attention(q, pages, pages, block_table=table, seqused_k=torch.tensor([11, 19], dtype=torch.int32))
    with pytest.raises(RuntimeError, match="pages"):
        out.sum().backward()


def test_decode_has_no_gradient():
    q, k, v = tensors(n=1, m=40, d=64, dv=64, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="no gradient"):
        sy.attention_decode(q, k, v).sum().backward()


@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_lse_has_a_gradient(name, compiled, with_out):
    """Also where the loss contains nothing else."""
    if compiled:
        torch._dynamo.reset()
    call = torch.compile(sy.attention, backend="aot_eager") if compiled else sy.attention
    given = [*tensors(), torch.randn(1, 4, 13, 19, requires_grad=True), torch.randn(4, requires_grad=True)]
    q, k, v, bias, sinks = given
    out, lse = call(q, k, v, bias=bias, sinks=sinks, **CASES[name], return_lse=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    want, want_lse = reference.attention(*wide[:3], bias=wide[3], sinks=wide[4], **judged(CASES[name]))
    weights, of_lse = torch.randn_like(out), torch.randn_like(lse)
    loss = (lse * of_lse).sum() + ((out * weights).sum() if with_out else 0)
    want_loss = (want_lse * of_lse).sum() + ((want * weights).sum() if with_out else 0)
    theirs = torch.autograd.grad(want_loss, wide, allow_unused=True)
    for one, mine, other in zip(given, torch.autograd.grad(loss, given), theirs, strict=True):
        compare(mine, torch.zeros_like(one).double() if other is None else other, 1e-5)


def test_the_lse_of_packed_sequences_has_a_gradient():
    lengths = [3, 4]
    q, k, v = [torch.randn(7, h, 16, requires_grad=True) for h in (4, 2, 2)]
    cu = torch.tensor([0, 3, 7], dtype=torch.int32)
    sinks = torch.randn(4, requires_grad=True)
    out, lse = sy.attention_varlen(q, k, v, cu, cu, 4, 4, causal=True, sinks=sinks, return_lse=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v, sinks)]
    want = 0
    for part in zip(*(tensor.split(lengths) for tensor in wide[:3]), strict=True):
        one, one_lse = reference.attention(*(tensor.transpose(0, 1)[None] for tensor in part), mask="causal_bottom_right",
                                           sinks=wide[3])  # fmt: skip
        want = want + one.square().sum() + one_lse.square().sum()
    loss = out.square().sum() + lse.square().sum()
    for mine, theirs in zip(torch.autograd.grad(loss, (q, k, v, sinks)), torch.autograd.grad(want, wide), strict=True):
        compare(mine, theirs, 1e-5)


def test_results_of_parts_joined_by_their_lse_have_the_gradients_of_the_whole():
    """As ring attention does: the gradients of the weights of the parts go through the LSE."""
    q, k, v = tensors()
    parts = [sy.attention(q, k[:, :, part], v[:, :, part], return_lse=True) for part in (slice(0, 7), slice(7, 19))]
    shares = torch.softmax(torch.stack([lse for _, lse in parts]), 0)[..., None]
    joined = sum(share * out for share, (out, _) in zip(shares, parts, strict=True))
    whole = sy.attention(q, k, v)
    compare(joined, whole.double())
    grad = torch.randn_like(whole)
    want = torch.autograd.grad(whole, (q, k, v), grad)
    for mine, theirs in zip(torch.autograd.grad(joined, (q, k, v), grad), want, strict=True):
        compare(mine, theirs.double(), 1e-5)


def test_the_lses_gradient_may_be_nan_where_nothing_is_seen():
    q, k, v = tensors(n=19, m=13)  # queries 0 to 5 see no key
    out, lse = sy.attention(q, k, v, causal=True, return_lse=True)
    assert torch.equal(lse[:, :, :6], torch.full((2, 4, 6), -torch.inf))
    seen = torch.zeros_like(lse)
    seen[:, :, 6:] = 1
    grads = [torch.autograd.grad((out, lse), (q, k, v), (torch.ones_like(out), rest), retain_graph=True)
             for rest in (seen, torch.where(seen == 0, torch.nan, seen))]  # fmt: skip
    for mine, theirs in zip(*grads, strict=True):
        assert torch.equal(mine, theirs) and mine.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_no_keys(causal, sinks, bias):
    """Empty tensors of PyTorch have a null address. Nothing is seen: 0, and the LSE is the sink's or -infinity."""
    q, k, v = torch.randn(2, 4, 5, 64), torch.randn(2, 2, 0, 64), torch.randn(2, 2, 0, 64)
    given = [tensor.requires_grad_() for tensor in (q, k, v)]
    sink = torch.randn(4, requires_grad=True) if sinks else None
    options = {"bias": torch.empty(2, 4, 5, 0)} if bias else {}
    out, lse = sy.attention(*given, causal=causal, sinks=sink, return_lse=True, **options)
    assert torch.equal(out, torch.zeros_like(out))
    want = sink[:, None].expand(2, 4, 5) if sinks else torch.full((2, 4, 5), -torch.inf)
    compare(lse.detach(), want.double()) if sinks else torch.testing.assert_close(lse.detach(), want)
    with torch.no_grad():
        assert torch.equal(sy.attention(*given, causal=causal, sinks=sink, **options), out)
    for tensor, grad in zip(given, torch.autograd.grad(out.sum(), given, retain_graph=sinks), strict=True):
        assert torch.equal(grad, torch.zeros_like(tensor))
    if sinks:
        assert torch.equal(torch.autograd.grad(out.sum(), sink)[0], torch.zeros(4))


def test_no_keys_of_packed_sequences_and_decode():
    q, k = torch.randn(5, 4, 64), torch.randn(0, 2, 64)
    cu_q, cu_k = torch.tensor([0, 5], dtype=torch.int32), torch.tensor([0, 0], dtype=torch.int32)
    assert torch.equal(sy.attention_varlen(q, k, k, cu_q, cu_k, 5, 0), torch.zeros_like(q))
    q, k = torch.randn(2, 4, 1, 64).half(), torch.randn(2, 2, 0, 64).half()
    assert torch.equal(sy.attention_decode(q, k, k), torch.zeros_like(q))


@pytest.mark.parametrize("empty", range(4))
def test_no_queries_batches_heads_or_columns(empty):
    shape = [2, 4, 5, 64]
    shape[empty] = 0
    q = torch.randn(shape, requires_grad=True)
    k = torch.randn(*shape[:2], 7, shape[3], requires_grad=True)
    out = sy.attention(q, k, k)
    assert out.shape == q.shape and sy.rotary(q).shape == q.shape
    for tensor, grad in zip((q, k), torch.autograd.grad(out.sum(), (q, k)), strict=True):
        assert torch.equal(grad, torch.zeros_like(tensor))
    (grad,) = torch.autograd.grad(sy.rotary(q).sum(), q)
    assert grad.shape == q.shape
