# SPDX-License-Identifier: MIT
"""switchyard.flash_attn by flash_attn's own signatures, against attention in float64 from its definition."""

import inspect

import pytest
import reference
import switchyard.flash_attn as fa
import torch
from switchyard.flash_attn import bert_padding, flash_attn_interface
from test_attention import compare

B, H, HK, N, M, D = 2, 4, 2, 11, 17, 24
CASES = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window_size": (4, 2)},
    "causal window": {"causal": True, "window_size": (3, 0)},
    "soft cap": {"causal": True, "softcap": 5.0},
    "scale": {"softmax_scale": 0.3},
    "slopes": {"causal": True, "alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625])},
    "slopes of sequences": {"alibi_slopes": torch.linspace(0.1, 0.8, 8).reshape(2, 4)},
    "deterministic": {"causal": True, "deterministic": True},
}
DTYPES = {torch.float32: 5e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def judge(q, k, v, *, causal=False, window_size=(-1, -1), softcap=0.0, softmax_scale=None, alibi_slopes=None, bias=None, **_):
    """[batch, tokens, heads, dim] in float64, differentiable; and the LSE."""
    n, m = q.shape[1], k.shape[1]
    if alibi_slopes is not None:
        distance = (torch.arange(n)[:, None] + m - n - torch.arange(m)[None, :]).abs()
        slopes = alibi_slopes.double().reshape(-1, q.shape[2])
        added = -slopes[:, :, None, None] * distance
        bias = added if bias is None else bias + added
    mask = "causal_bottom_right" if causal else "none"
    out, lse = reference.attention(*(tensor.transpose(1, 2) for tensor in (q, k, v)), mask=mask, window=window_size, soft_cap=softcap,
                                   scale=softmax_scale, bias=bias)  # fmt: skip
    return out.transpose(1, 2), lse


def tensors(*shapes, dtype=torch.float32, grad=True):
    return [torch.randn(shape).to(dtype).requires_grad_(grad) for shape in shapes]


def check_gradients(out, want, given, wide, tolerance):
    compare(out, want, tolerance)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, given, grad), torch.autograd.grad(want, wide, grad.double()), strict=True):
        assert mine.shape == theirs.shape
        compare(mine, theirs, 4 * tolerance)


def widened(given):
    return [tensor.detach().double().requires_grad_() for tensor in given]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dense(name, dtype):
    given = tensors((B, N, H, D), (B, M, HK, D), (B, M, HK, D), dtype=dtype)
    out, lse, probabilities = fa.flash_attn_func(*given, **CASES[name], return_attn_probs=True)
    wide = widened(given)
    want, want_lse = judge(*wide, **CASES[name])
    assert out.dtype == dtype and lse.dtype == torch.float32 and probabilities is None
    compare(lse.detach(), want_lse, DTYPES[dtype])
    check_gradients(out, want, given, wide, DTYPES[dtype])
    if dtype == torch.float32:
        assert torch.equal(fa.flash_attn_func(*given, **CASES[name]), out)


@pytest.mark.parametrize("name", CASES)
def test_packed_in_one_tensor(name):
    (qkv,) = tensors((B, N, 3, H, D))
    (wide,) = widened([qkv])
    check_gradients(
        fa.flash_attn_qkvpacked_func(qkv, **CASES[name]), judge(*wide.unbind(2), **CASES[name])[0], [qkv], [wide], 5e-6
    )
    q, kv = given = tensors((B, N, H, D), (B, M, 2, HK, D))
    wide = widened(given)
    out = fa.flash_attn_kvpacked_func(q, kv, **CASES[name])
    check_gradients(out, judge(wide[0], *wide[1].unbind(2), **CASES[name])[0], given, wide, 5e-6)


LENGTHS = [3, 0, 7], [5, 2, 9]  # of queries and keys


def cumulated(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths]).cumsum(0).to(dtype)


def judge_packed(q, k, v, lengths_q, lengths_k, **options):
    parts = zip(q.split(lengths_q), k.split(lengths_k), v.split(lengths_k), strict=True)
    return torch.cat([judge(*(tensor[None] for tensor in part), **options)[0][0] for part in parts])


VARLEN = [name for name in CASES if name != "slopes of sequences"]


@pytest.mark.parametrize("name", VARLEN)
@pytest.mark.parametrize("form", ["", "kvpacked", "qkvpacked"])
def test_varlen(name, form):
    lengths_q, lengths_k = LENGTHS if form != "qkvpacked" else (LENGTHS[0], LENGTHS[0])
    total_q, total_k = sum(lengths_q), sum(lengths_k)
    lengths = cumulated(lengths_q), cumulated(lengths_k), max(lengths_q), max(lengths_k)
    options = {**CASES[name], "return_attn_probs": True}
    if form == "":
        given = tensors((total_q, H, D), (total_k, HK, D), (total_k, HK, D))
        found, apart = fa.flash_attn_varlen_func(*given, *lengths, **options), lambda q, k, v: (q, k, v)
    elif form == "kvpacked":
        given = tensors((total_q, H, D), (total_k, 2, HK, D))
        found, apart = fa.flash_attn_varlen_kvpacked_func(*given, *lengths, **options), lambda q, kv: (q, *kv.unbind(1))
    else:
        given = tensors((total_q, 3, H, D))
        found = fa.flash_attn_varlen_qkvpacked_func(*given, lengths[0], lengths[2], **options)
        apart = lambda qkv: qkv.unbind(1)
    out, lse, probabilities = found
    assert lse.shape == (H, total_q) and probabilities is None
    wide = widened(given)
    check_gradients(out, judge_packed(*apart(*wide), lengths_q, lengths_k, **CASES[name]), given, wide, 5e-6)


def test_varlen_with_pages():
    lengths_q, lengths_k = [3, 1], [11, 6]
    q, pages_k, pages_v = tensors((4, H, D), (5, 8, HK, D), (5, 8, HK, D), grad=False)
    table = torch.tensor([[3, 1], [0, 4]])
    out = fa.flash_attn_varlen_func(q, pages_k, pages_v, cumulated(lengths_q), cumulated(lengths_k), 3, 11, causal=True,
                                    block_table=table)  # fmt: skip
    rows = list(zip(table, lengths_k, strict=True))
    k, v = (torch.cat([pages[row].flatten(0, 1)[:n] for row, n in rows]) for pages in (pages_k, pages_v))
    compare(out, judge_packed(q.double(), k.double(), v.double(), lengths_q, lengths_k, causal=True))


def test_rows_that_see_nothing():
    """0, and an LSE of +infinity."""
    q, k = tensors((1, 5, 2, 16), (1, 3, 2, 16), grad=False)
    out, lse, _ = fa.flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
    assert torch.equal(out[:, :2], torch.zeros(1, 2, 2, 16)) and torch.equal(lse[:, :, :2], torch.full((1, 2, 2), torch.inf))
    assert lse[:, :, 2:].isfinite().all()


def test_dropout():
    """Of torch's generator; the mask's mean keeps the result's."""
    q, k, v = tensors((1, 64, 2, 16), (1, 256, 2, 16), (1, 256, 2, 16), grad=False)
    torch.manual_seed(1)
    first = fa.flash_attn_func(q, k, v + 1, 0.25)
    assert not torch.equal(first, fa.flash_attn_func(q, k, v + 1, 0.25))
    torch.manual_seed(1)
    assert torch.equal(first, fa.flash_attn_func(q, k, v + 1, 0.25))
    assert abs(first.mean() - fa.flash_attn_func(q, k, v + 1).mean()) < 0.05


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_probabilities_with_dropout(name, is_packed):
    """exp(score - largest of the row), negative where it is dropped: the result follows from them."""
    options = {**CASES[name], "return_attn_probs": True}
    lengths_q, lengths_k = ([N, N], [M, M]) if not is_packed else ([3, 7], [9, 5])
    q, k, v = tensors(*((sum(n), h, D) for n, h in ((lengths_q, H), (lengths_k, HK), (lengths_k, HK))), grad=False)
    if is_packed:
        lengths = cumulated(lengths_q), cumulated(lengths_k), max(lengths_q), max(lengths_k)
        out, _, signed = fa.flash_attn_varlen_func(q, k, v, *lengths, 0.25, **options)
    else:
        out, _, signed = fa.flash_attn_func(*(tensor.unflatten(0, (2, -1)) for tensor in (q, k, v)), 0.25, **options)
        out = out.flatten(0, 1)
    assert signed.shape == (2, H, max(lengths_q), max(lengths_k)) and (signed < 0).any()
    for b, (mine, values) in enumerate(zip(out.split(lengths_q), v.split(lengths_k), strict=True)):
        part = signed[b, :, : mine.shape[0], : values.shape[0]].double()
        weights = part.clamp(min=0) / part.abs().sum(2, keepdim=True).clamp(min=1e-30) / 0.75
        values = values.double().repeat_interleave(H // HK, 1)
        compare(mine, torch.einsum("hqk,khd->qhd", weights, values))


def turned(x, cos, sin, places, interleaved):
    """x [tokens, heads, dim] in float64, turned by places [tokens]."""
    half = cos.shape[1]
    cos, sin = cos.double()[places][:, None], sin.double()[places][:, None]
    head, rest = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    a, b = a * cos - b * sin, b * cos + a * sin
    return torch.cat([torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1), rest], -1)


CACHES = {
    "plain": {},
    "lengths": {"used": [5, 9]},
    "one length": {"used": 6},
    "appended": {"used": [5, 9], "new": 3},
    "rotary": {"used": [5, 9], "new": 3, "rotary": True},
    "rotary in halves": {"used": [5, 9], "new": 3, "rotary": True, "rotary_interleaved": False},
    "rotary not in order": {"used": [5, 9], "new": 3, "rotary": True, "causal": False},
    "rows": {"used": [5, 9], "new": 3, "rows": [3, 1]},
    "padding on the left": {"used": [5, 9], "new": 3, "leftpad": [2, 0]},
    "padding and slopes of sequences": {
        "used": [5, 9],
        "leftpad": [0, 4],
        "alibi_slopes": torch.linspace(0.1, 0.8, 8).reshape(2, 4),
    },  # fmt: skip
    "pages": {"used": [5, 9], "pages": True},
    "pages, appended": {"used": [6, 9], "new": 3, "pages": True, "rotary": True},
    "whole pages": {"pages": True},
    "window": {"used": [5, 9], "new": 3, "window_size": (3, -1)},
    "both sides": {"used": [5, 9], "causal": False, "window_size": (2, 1)},
    "many queries": {"used": [40, 33], "seqlen": 48, "queries": 20},
    "splits": {"used": [5, 9], "num_splits": 4, "softcap": 4.0, "softmax_scale": 0.4},
    "slopes": {"used": [5, 9], "alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625])},
}


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cache(name, dtype):
    case = {"causal": True, "queries": 3, "seqlen": 16, **CACHES[name]}
    queries, seqlen, new = case.pop("queries"), case.pop("seqlen"), case.pop("new", 0)
    used, rows, leftpad, in_pages = (case.pop(key, None) for key in ("used", "rows", "leftpad", "pages"))
    rotary, dim = case.pop("rotary", False), 32
    q, k_new, v_new = tensors((B, queries, H, dim), (B, new, HK, dim), (B, new, HK, dim), dtype=dtype, grad=False)
    given = dict(case)
    if in_pages:
        table = torch.tensor([[3, 1, 0, 6], [2, 4, 5, 7]], dtype=torch.int32)
        caches = tensors((8, 4, HK, dim), (8, 4, HK, dim), dtype=dtype, grad=False)
        before = [cache[table.long()].flatten(1, 2) for cache in caches]
        given["block_table"] = table
    else:
        caches = tensors((4 if rows else B, seqlen, HK, dim), (4 if rows else B, seqlen, HK, dim), dtype=dtype, grad=False)
        before = [cache[rows] if rows else cache.clone() for cache in caches]
    untouched = [cache.clone() for cache in caches]
    lengths = [before[0].shape[1]] * B if used is None else [used] * B if isinstance(used, int) else used
    if used is not None:
        given["cache_seqlens"] = used if isinstance(used, int) else torch.tensor(used, dtype=torch.int32)
    if rows:
        given["cache_batch_idx"] = torch.tensor(rows, dtype=torch.int32)
    if leftpad:
        given["cache_leftpad"] = torch.tensor(leftpad, dtype=torch.int32)
    if new:
        given.update(k=k_new, v=v_new)
    if rotary:
        angle = torch.randn(32, 8)
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        given.update(rotary_cos=cos, rotary_sin=sin)
    interleaved = case.pop("rotary_interleaved", True)
    case.pop("num_splits", None)
    out, lse = fa.flash_attn_with_kvcache(q, *caches, **given, return_softmax_lse=True)
    for b, length in enumerate(lengths):
        one_q, one_k, one_v = q[b].double(), k_new[b].double(), v_new[b].double()
        if rotary:
            places = length + torch.arange(max(queries, new))
            in_order = case["causal"] or "window_size" in case
            one_q = turned(one_q, cos, sin, places[:queries] if in_order else places[:1].expand(queries), interleaved)
            one_k = turned(one_k, cos, sin, places[:new], interleaved)
        keys, values = torch.cat([before[0][b, :length].double(), one_k]), torch.cat([before[1][b, :length].double(), one_v])
        bias = None
        if leftpad:
            bias = torch.zeros(1, 1, 1, len(keys), dtype=torch.float64)
            bias[..., : leftpad[b]] = -torch.inf
        options = dict(case)
        if "alibi_slopes" in case and case["alibi_slopes"].dim() == 2:
            options["alibi_slopes"] = case["alibi_slopes"][b : b + 1]
        want, want_lse = judge(one_q[None], keys[None], values[None], bias=bias, **options)
        compare(out[b], want[0], DTYPES[dtype])
        compare(lse[b], want_lse[0], DTYPES[dtype])
        if new:  # what was written, and nothing else
            written = [cache[table.long()].flatten(1, 2)[b] if in_pages else cache[rows[b] if rows else b] for cache in caches]
            for mine, old, theirs in zip(written, before, (one_k, one_v), strict=True):
                compare(mine[length : length + new], theirs, DTYPES[dtype])
                assert torch.equal(mine[:length], old[b, :length]) and torch.equal(mine[length + new :], old[b, length + new :])
    if rows or not new:
        for mine, old in zip(caches, untouched, strict=True):
            assert torch.equal(mine[[0, 2]] if rows else mine, old[[0, 2]] if rows else old)


REFUSED = {
    "k and v are given together": {"k": 1},
    "k and v need cache_seqlens": {"k": 1, "v": 1},
    "rotary_cos needs rotary_sin": {"rotary_cos": torch.ones(4, 4)},
    "neither cache_batch_idx nor cache_leftpad": {
        "block_table": torch.zeros(1, 1).int(),
        "cache_leftpad": torch.zeros(1).int(),
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_caches(message):
    q, new = torch.randn(1, 1, 2, 16), torch.randn(1, 1, 2, 16)
    given = {name: value if isinstance(value, torch.Tensor) else new for name, value in REFUSED[message].items()}
    with pytest.raises(RuntimeError, match=message):
        fa.flash_attn_with_kvcache(q, torch.randn(1, 4, 2, 16), torch.randn(1, 4, 2, 16), **given)


def test_slopes_of_packed_sequences():
    """[batch, heads]: each sequence has its own."""
    lengths_q, lengths_k = [3, 1, 7], [5, 2, 9]
    slopes = torch.linspace(0.1, 0.9, 3 * H).reshape(3, H)
    given = tensors((11, H, D), (16, HK, D), (16, HK, D))
    out, lse, _ = fa.flash_attn_varlen_func(*given, cumulated(lengths_q), cumulated(lengths_k), 7, 9, causal=True,
                                            alibi_slopes=slopes, return_attn_probs=True)  # fmt: skip
    wide = widened(given)
    parts = zip(wide[0].split(lengths_q), wide[1].split(lengths_k), wide[2].split(lengths_k), slopes, strict=True)
    found = [judge(*(tensor[None] for tensor in part), causal=True, alibi_slopes=own) for *part, own in parts]
    compare(lse.detach(), torch.cat([want_lse[0] for _, want_lse in found], 1))
    check_gradients(out, torch.cat([want_out[0] for want_out, _ in found]), given, wide, 5e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_slopes_of_sequences_are_exact(dtype):
    """As f32, whatever the queries' type: far keys would lose them to its roundings."""
    q, k, v = tensors((2, 8, H, D), (2, 600, HK, D), (2, 600, HK, D), dtype=dtype, grad=False)
    slopes = torch.linspace(0.001, 0.01, 2 * H).reshape(2, H)
    out = fa.flash_attn_func(q, k, v, alibi_slopes=slopes)
    want = torch.cat([fa.flash_attn_func(q[b : b + 1], k[b : b + 1], v[b : b + 1], alibi_slopes=slopes[b]) for b in range(2)])
    assert torch.equal(out, want) and out.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"cache_leftpad": [3, 0]}, {"block_table": [[2, 0], [3, 1]]}, {"queries": 3}])
def test_slopes_of_sequences_are_exact_with_a_cache(dtype, options):
    """Of more queries than keys, the first ones are far from all keys: rounded distances would change their weights."""
    options = {name: value if name == "queries" else torch.tensor(value, dtype=torch.int32) for name, value in options.items()}
    queries, used = options.pop("queries", 128), [5, 17]
    q, k, v = tensors((2, queries, H, D), (4, 16, HK, D), (4, 16, HK, D), dtype=dtype, grad=False)
    table = options.get("block_table", torch.tensor([[0, 1], [2, 3]]))
    keys, values = (cache[table.long()].flatten(1, 2) for cache in (k, v))
    caches = (k, v) if "block_table" in options else (keys, values)
    slopes = torch.linspace(0.05, 0.3, 2 * H).reshape(2, H)
    out, lse = fa.flash_attn_with_kvcache(q, *caches, cache_seqlens=torch.tensor(used), alibi_slopes=slopes,
                                          return_softmax_lse=True, **options)  # fmt: skip
    assert out.is_contiguous()
    for b, length in enumerate(used):
        first = int(options.get("cache_leftpad", [0, 0])[b])
        part = [tensor[b : b + 1].double() for tensor in (q, keys[:, first:length], values[:, first:length])]
        want, want_lse = judge(*part, alibi_slopes=slopes[b : b + 1])
        compare(out[b : b + 1], want, DTYPES[dtype] / 2)
        compare(lse[b : b + 1], want_lse, 1e-5)


def test_no_sequences_have_slopes():
    q, cache = torch.randn(0, 3, 2, 16), torch.randn(0, 8, 2, 16)
    out, lse = fa.flash_attn_with_kvcache(q, cache, cache, alibi_slopes=torch.zeros(0, 2), return_softmax_lse=True)
    assert out.shape == (0, 3, 2, 16) and lse.shape == (0, 2, 3)


def test_a_window_may_be_a_tensor():
    q, k = tensors((1, 9, 2, 16), (1, 9, 2, 16), grad=False)
    want = fa.flash_attn_func(q, k, k, window_size=(3, 1))
    assert torch.equal(fa.flash_attn_func(q, k, k, window_size=torch.tensor([3, 1])), want)


def test_more_keys_than_pages_are_refused():
    """Behind the table's end, another sequence's keys would be overwritten."""
    q, cache = torch.randn(1, 1, 2, 16), torch.randn(4, 8, 2, 16)
    table, used = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([8], dtype=torch.int32)
    before = cache.clone()
    with pytest.raises(RuntimeError, match="block_table has 1 pages of 8 keys for each sequence, but one has 9 keys"):
        fa.flash_attn_with_kvcache(q, cache, cache, q, q, cache_seqlens=used, block_table=table)
    assert torch.equal(cache, before)
    assert fa.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=used, block_table=table).isfinite().all()


def test_shapes_that_disagree_are_named():
    q, k = torch.randn(1, 4, 4, 16), torch.randn(1, 5, 3, 16)
    with pytest.raises(RuntimeError, match=r"\[switchyard.301\] attention_forward: .*heads"):
        fa.flash_attn_func(q, k, k)


def test_padding_and_back():
    x, mask = torch.randn(3, 6, 5), torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]])
    packed, indices, cu_seqlens, longest, used = bert_padding.unpad_input(x, mask)
    assert torch.equal(packed, x[mask.bool()]) and longest == 5
    assert cu_seqlens.dtype == torch.int32 and cu_seqlens.tolist() == [0, 3, 3, 8] and used.tolist() == [3, 0, 5]
    assert torch.equal(bert_padding.pad_input(packed, indices, 3, 6), x * mask[..., None])
    unused = torch.zeros_like(mask)
    unused[0, 3] = 1
    _, indices, cu_seqlens, longest, used = bert_padding.unpad_input(x, mask, unused)
    assert cu_seqlens.tolist() == [0, 4, 4, 9] and used.tolist() == [3, 0, 5] and len(indices) == 9
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    packed, indices, cu_seqlens, longest = bert_padding.unpad_input_for_concatenated_sequences(x, lengths)
    assert cu_seqlens.tolist() == [0, 2, 5, 11] and longest == 6 and torch.equal(packed, torch.cat([x[0, :5], x[1]]))
    x.requires_grad_()
    packed, indices, *_ = bert_padding.unpad_input(x, mask)
    (grad,) = torch.autograd.grad(bert_padding.pad_input(2 * packed, indices, 3, 6).sum(), x)
    assert torch.equal(grad, 2.0 * mask[..., None].expand_as(x))


def test_rows_and_what_is_added_later():
    x, indices = torch.randn(5, 3, requires_grad=True), torch.tensor([4, 0])
    rows, every = bert_padding.index_first_axis_residual(x, indices)
    assert torch.equal(rows, x[indices]) and torch.equal(every, x)
    (grad,) = torch.autograd.grad(rows.sum() + 3 * every.sum(), x)
    assert torch.equal(grad[:, 0], torch.tensor([4.0, 3.0, 3.0, 3.0, 4.0]))


# As flash_attn 2.8.3 has them.
PADDING = {
    "index_first_axis": "input indices",
    "index_first_axis_residual": "input indices",
    "index_put_first_axis": "values indices first_axis_dim",
    "unpad_input": "hidden_states attention_mask unused_mask=None",
    "unpad_input_for_concatenated_sequences": "hidden_states attention_mask_in_length",
    "pad_input": "hidden_states indices batch seqlen",
}


# As flash_attn 2.8.3 has them.
SIGNATURES = {
    "flash_attn_func": "q k v dropout_p=0.0 softmax_scale=None causal=False window_size=(-1, -1) softcap=0.0 alibi_slopes=None "
    "deterministic=False return_attn_probs=False",
    "flash_attn_qkvpacked_func": "qkv dropout_p=0.0 softmax_scale=None causal=False window_size=(-1, -1) softcap=0.0 "
    "alibi_slopes=None deterministic=False return_attn_probs=False",
    "flash_attn_kvpacked_func": "q kv dropout_p=0.0 softmax_scale=None causal=False window_size=(-1, -1) softcap=0.0 "
    "alibi_slopes=None deterministic=False return_attn_probs=False",
    "flash_attn_varlen_func": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p=0.0 softmax_scale=None "
    "causal=False window_size=(-1, -1) softcap=0.0 alibi_slopes=None deterministic=False return_attn_probs=False block_table=None",
    "flash_attn_varlen_qkvpacked_func": "qkv cu_seqlens max_seqlen dropout_p=0.0 softmax_scale=None causal=False "
    "window_size=(-1, -1) softcap=0.0 alibi_slopes=None deterministic=False return_attn_probs=False",
    "flash_attn_varlen_kvpacked_func": "q kv cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p=0.0 softmax_scale=None "
    "causal=False window_size=(-1, -1) softcap=0.0 alibi_slopes=None deterministic=False return_attn_probs=False",
    "flash_attn_with_kvcache": "q k_cache v_cache k=None v=None rotary_cos=None rotary_sin=None cache_seqlens=None "
    "cache_batch_idx=None cache_leftpad=None block_table=None softmax_scale=None causal=False window_size=(-1, -1) softcap=0.0 "
    "rotary_interleaved=True alibi_slopes=None num_splits=0 return_softmax_lse=False",
}


def signature(function):
    return " ".join(
        parameter.name if parameter.default is inspect.Parameter.empty else f"{parameter.name}={parameter.default}"
        for parameter in inspect.signature(function).parameters.values()
    )


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert signature(getattr(fa, name)) == SIGNATURES[name]
    assert getattr(flash_attn_interface, name) is getattr(fa, name)


@pytest.mark.parametrize("name", PADDING)
def test_signatures_of_padding(name):
    assert signature(getattr(bert_padding, name)) == PADDING[name]


def test_compiles():
    torch._dynamo.reset()
    q, k, v = tensors((B, N, H, D), (B, M, HK, D), (B, M, HK, D))
    compiled = torch.compile(lambda *of: fa.flash_attn_func(*of, causal=True), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), fa.flash_attn_func(q, k, v, causal=True))


def test_determinism_reaches_the_backward(monkeypatch):
    """And no other call's."""
    from switchyard.torch import _gradients

    seen, plain = [], _gradients._run_attention_backward
    monkeypatch.setattr(_gradients, "_run_attention_backward", lambda *args: seen.append(args[-3]) or plain(*args))
    given = tensors((B, N, H, D), (B, M, HK, D), (B, M, HK, D))
    first, second = fa.flash_attn_func(*given, deterministic=True), fa.flash_attn_func(*given)
    second.sum().backward()
    first.sum().backward()
    assert seen == [False, True]
