# SPDX-License-Identifier: MIT
"""Attention whose result for a query has the same bits in a prompt and while decoding, alone and in any batch: the
class `batch_invariant` of attention_forward and attention_decode, which launch the same blob.

What makes a row's bits is fixed. Keys are taken in blocks of BLOCK_N, counted from the sequence's first key. Blocks
are summed in chunks of `chunk` keys, each from its own zero, and the chunks are joined in ascending order. A block of
threads takes all chunks of its rows or, where there are too few of them to fill the device, one chunk, and
attention_invariant_join joins what these wrote. Blocks of keys that a row does not see are exact no-ops, so a tile's
other rows do not matter. One loop serves every mask. It is compiled without contraction into fused operations
(`enable_fp_fusion`), so that both kernels round alike; where one is wanted it is written.
"""

import triton
import triton.language as tl
from attention_narrow_triton import wide
from attention_terms import LN2, LOG2E, place_sequence, seen_by, tanh


@triton.jit
def factors(before, here):
    """The maximum of two, and what sums relative to each of them are multiplied with to be relative to it."""
    now = tl.maximum(before, here)
    shift = tl.where(now == float("-inf"), 0.0, now)
    return now, tl.exp2(before - shift), tl.exp2(here - shift)


@triton.jit
def finish(largest, total, sink, v_scale):
    """What a row's sum of values is multiplied with, and its LSE."""
    # The sink joins last, so that weights are not small beside it while they are in low precision.
    now, rescale, weight = factors(largest, sink)
    total = tl.fma(total, rescale, weight)
    empty = total == 0.0
    multiplier = tl.where(empty, 0.0, tl.div_rn(rescale * v_scale, total))
    return multiplier, tl.where(empty, float("-inf"), (now + tl.log2(total)) * LN2)


@triton.jit
def attention_invariant(
    q, k, v, out, lse, k_scale, v_scale, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
    block_table, partial, partial_state,
    batch, heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # strides over UNIT and KV_UNIT
    out_batch, out_head, out_token, lse_batch, lse_head, k_scale_stride, v_scale_stride,
    scale, soft_cap, left, right, bottom_right, has, chunk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr, KV_UNIT: tl.constexpr,
    NARROW: tl.constexpr, NATIVE: tl.constexpr,
):
    """The query heads that share a KV head are rows of one tile. `left` and `right` are -1 for no window; `has` has a
    bit for each pointer that is given: 2 alibi_slopes, 4 sinks, 8 cu_seqlens_q, 16 cu_seqlens_k, 32 seqused_q,
    64 seqused_k, 256 lse, 512 k_scale, 1024 v_scale, 2048 block_table; without the last, page_size is more than any
    number of keys. With bit 128 the grid's second dimension counts chunks: sums are f32 in `partial`, [chunks, batch,
    heads, queries, head_dim_v], and maxima and weights' sums in `partial_state`, [2, chunks, batch, heads, queries].
    UNIT divides the strides of q and out and the head dims, KV_UNIT the strides of k and v, BLOCK_N the chunk."""
    share = heads // heads_kv
    tiles = tl.cdiv(queries_max * share, BLOCK_M)
    tile = tiles - 1 - tl.program_id(0) % tiles  # the last rows first, which see the most keys under a causal mask
    h_kv = tl.program_id(0) // tiles % heads_kv
    b = tl.program_id(0) // tiles // heads_kv
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    first = tile * BLOCK_M // share
    if first >= queries:
        return
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    at = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = at // share
    h = h_kv * share + at % share
    live = rows < queries
    dims = tl.arange(0, BLOCK_D)
    columns = tl.arange(0, BLOCK_N)
    k_dims = (dims < head_dim)[None, :]
    v_dims = (dims < head_dim_v)[None, :]
    q_rows = (entry * q_batch + h.to(tl.int64) * q_head + (first_query + rows) * q_token) * UNIT
    q_tile = tl.load(q + q_rows[:, None] + dims[None, :], mask=live[:, None] & k_dims, other=0.0)

    scaled = scale
    if has & 512:
        scaled = scaled * tl.load(k_scale + h_kv * k_scale_stride)
    factor = tl.zeros([BLOCK_M], tl.float32) + scaled
    if NARROW and q_tile.dtype == tl.bfloat16:
        values = q_tile.to(tl.float32)
        exponent = tl.max(tl.abs(values), 1).to(tl.int32, bitcast=True) >> 23
        exponent = tl.minimum(tl.maximum(exponent, 1), 253)  # the inverse is to be a float as well
        factor = factor * (exponent << 23).to(tl.float32, bitcast=True)
        q_tile = (values * ((254 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]).to(tl.float16)
    slope = tl.zeros([BLOCK_M], tl.float32)
    if has & 2:
        slope = tl.load(alibi_slopes + h, mask=live, other=0.0)

    k_at = k + h_kv.to(tl.int64) * k_head * KV_UNIT
    v_at = v + h_kv.to(tl.int64) * v_head * KV_UNIT
    paged = (has & 2048) != 0
    if not paged:
        k_at += (entry_k * k_batch + first_key * k_token) * KV_UNIT
        v_at += (entry_k * v_batch + first_key * v_token) * KV_UNIT
    table = block_table + b.to(tl.int64) * block_table_stride

    # The keys that the tile's rows see, and of those the ones that every row sees.
    diagonal = (keys - queries) * bottom_right
    left = tl.where(left < 0, 1 << 30, left)
    right = tl.where(right < 0, 1 << 30, right)
    last = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // share, queries - 1)
    hi = tl.maximum(tl.minimum(keys, last + 1 + diagonal + right), 0)
    seen_from = tl.minimum(tl.maximum(first + diagonal - left, 0), hi)
    lo = seen_from // BLOCK_N * BLOCK_N
    full_begin = last + diagonal - left
    full_end = tl.minimum(keys, first + 1 + diagonal + right)
    if has & 128:
        lo = tl.maximum(lo, tl.program_id(1) * chunk)
        hi = tl.minimum(hi, (tl.program_id(1) + 1) * chunk)

    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # of the present chunk
    total = tl.zeros([BLOCK_M], tl.float32)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    joined = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # of the chunks before
    joined_total = tl.zeros([BLOCK_M], tl.float32)
    joined_largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    for start in tl.range(lo, hi, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        if start % chunk == 0:
            joined_largest, old, new = factors(joined_largest, largest)
            joined_total = tl.fma(joined_total, old, total * new)
            joined = tl.fma(joined, tl.broadcast_to(old[:, None], joined.shape), acc * new[:, None])
            acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
            total = tl.zeros([BLOCK_M], tl.float32)
            largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
        j = start + columns
        there = (j >= seen_from) & (j < hi)  # other entries of the block table may be any number
        page = tl.load(table + j // page_size, mask=there & paged, other=0).to(tl.int64)
        slot = (j % page_size).to(tl.int64)
        k_rows = (page * k_batch + slot * k_token) * KV_UNIT
        v_rows = (page * v_batch + slot * v_token) * KV_UNIT
        k_tile = tl.load(k_at + k_rows[:, None] + dims[None, :], mask=there[:, None] & k_dims, other=0)
        if NARROW:
            k_tile = wide(k_tile, NATIVE)
        scores = tl.dot(q_tile, k_tile.T) * factor[:, None]
        if soft_cap != 0.0:
            scores = soft_cap * tanh(scores / soft_cap)
        if has & 2:
            scores -= slope[:, None] * tl.abs(rows[:, None] + (keys - queries) - j[None, :]).to(tl.float32)
        scores = scores * LOG2E
        if (start < full_begin) | (start + BLOCK_N > full_end):
            seen = seen_by(rows[:, None], j[None, :], keys, diagonal, left, right)
            scores = tl.where(seen, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(now == float("-inf"), 0.0, now)
        weights = tl.exp2(scores - shift[:, None])
        rescale = tl.exp2(largest - shift)
        total = tl.fma(total, rescale, tl.sum(weights, 1))
        v_tile = tl.load(v_at + v_rows[:, None] + dims[None, :], mask=there[:, None] & v_dims, other=0)
        if NARROW:
            v_tile = wide(v_tile, NATIVE)
        acc = tl.dot(weights.to(v_tile.dtype), v_tile, acc * rescale[:, None])
        largest = now
    joined_largest, old, new = factors(joined_largest, largest)
    joined_total = tl.fma(joined_total, old, total * new)
    joined = tl.fma(joined, tl.broadcast_to(old[:, None], joined.shape), acc * new[:, None])

    stored = live[:, None] & v_dims
    if has & 128:
        step = batch.to(tl.int64) * heads * queries_max
        row = tl.program_id(1) * step + (b.to(tl.int64) * heads + h) * queries_max + rows
        tl.store(partial_state + row, joined_largest, mask=live)
        tl.store(partial_state + tl.num_programs(1) * step + row, joined_total, mask=live)
        tl.store(partial + row[:, None] * head_dim_v + dims[None, :], joined, mask=stored)
    else:
        sink = tl.full([BLOCK_M], float("-inf"), tl.float32)
        if has & 4:
            sink = tl.load(sinks + h, mask=live, other=0.0) * LOG2E
        value_scale = 1.0
        if has & 1024:
            value_scale = tl.load(v_scale + h_kv * v_scale_stride)
        multiplier, value = finish(joined_largest, joined_total, sink, value_scale)
        out_rows = (entry * out_batch + h.to(tl.int64) * out_head + (first_query + rows) * out_token) * UNIT
        # A zero is positive, however many blocks without keys added to it.
        tl.store(out + out_rows[:, None] + dims[None, :],
                 (joined * multiplier[:, None] + 0.0).to(out.dtype.element_ty), mask=stored)
        if has & 256:
            tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + rows, value, mask=live)


@triton.jit
def attention_invariant_join(
    partial, partial_state, out, lse, v_scale, sinks, cu_seqlens_q, seqused_q,
    batch, heads, heads_kv, queries_max, head_dim_v, out_batch, out_head, out_token, lse_batch, lse_head,
    v_scale_stride, has, chunks,
    BLOCK_D: tl.constexpr, UNIT: tl.constexpr,
):
    """One row of the output from what attention_invariant wrote of its chunks."""
    i = tl.program_id(0) % queries_max
    h = tl.program_id(0) // queries_max % heads
    b = tl.program_id(0) // queries_max // heads
    queries = queries_max
    first_query = tl.zeros([], tl.int64)
    entry = b.to(tl.int64)
    if has & 8:
        first_query = tl.load(cu_seqlens_q + b).to(tl.int64)
        queries = (tl.load(cu_seqlens_q + b + 1) - first_query).to(tl.int32)
        entry = tl.zeros([], tl.int64)
    if has & 32:
        queries = tl.load(seqused_q + b)
    if i >= queries:
        return
    dims = tl.arange(0, BLOCK_D)
    head_dim_v = head_dim_v * UNIT
    step = batch.to(tl.int64) * heads * queries_max
    row = (b.to(tl.int64) * heads + h) * queries_max + i
    joined = tl.zeros([BLOCK_D], tl.float32)
    total = tl.full([], 0.0, tl.float32)
    largest = tl.full([], float("-inf"), tl.float32)
    for c in tl.range(0, chunks):
        at = row + c * step
        here = tl.load(partial_state + at)
        sum_here = tl.load(partial_state + chunks * step + at)
        values = tl.load(partial + at * head_dim_v + dims, mask=(dims < head_dim_v) & (here != float("-inf")), other=0.0)
        largest, old, new = factors(largest, here)
        total = tl.fma(total, old, sum_here * new)
        joined = tl.fma(joined, tl.zeros([BLOCK_D], tl.float32) + old, values * new)
    sink = tl.full([], float("-inf"), tl.float32)
    if has & 4:
        sink = tl.load(sinks + h) * LOG2E
    value_scale = 1.0
    if has & 1024:
        value_scale = tl.load(v_scale + h // (heads // heads_kv) * v_scale_stride)
    multiplier, value = finish(largest, total, sink, value_scale)
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + (first_query + i) * out_token) * UNIT
    tl.store(out_at + dims, (joined * multiplier + 0.0).to(out.dtype.element_ty), mask=dims < head_dim_v)
    if has & 256:
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + i, value)
