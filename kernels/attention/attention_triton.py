# SPDX-License-Identifier: MIT
"""Attention forward for every GPU, compiled ahead of time. The meaning of a call is that of
operators/attention_forward.hpp.

One block of threads computes BLOCK_M query rows of one head, with the online softmax of Milakov and Gimelshein
(arXiv:1805.02867) as FlashAttention-2 orders it (arXiv:2307.08691). Scores are kept in units of log2.

A causal mask is a right window of 0, so masks and windows need no code of their own: for a tile of rows, the
keys fall into a masked beginning, a middle that every row sees, and a masked end.
"""

import triton
import triton.language as tl
from attention_terms import LN2, LOG2E, kept, place_sequence, seen_by, threshold_of, with_terms
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def take_keys(
    acc, total, largest, q, k, v, first, last,  # keys [first, last); first is a multiple of BLOCK_N
    rows, queries, keys, diagonal, left, right, scale,
    k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
    at_batch, at_head, soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, head,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, PAGED: tl.constexpr, MAPPED: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    columns = tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    for start in tl.range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        j = start + columns
        if MAPPED:
            k_tile = k.load([at_batch, at_head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        else:
            if PAGED:
                page = tl.load(table + j // page_size, mask=j < keys, other=0).to(tl.int64)
                slot = (j % page_size).to(tl.int64)
                k_rows = page * k_page + slot * k_token
                v_rows = page * v_page + slot * v_token
            else:
                k_rows = start.to(tl.int64) * k_token + columns.to(tl.int64) * k_token
                v_rows = start.to(tl.int64) * v_token + columns.to(tl.int64) * v_token
            k_mask = (dims < head_dim)[None, :]
            v_mask = (dims_v < head_dim_v)[None, :]
            if MASKED:
                k_mask = k_mask & (j < keys)[:, None]
                v_mask = v_mask & (j < keys)[:, None]
            k_tile = tl.load(k + k_rows[:, None] + dims[None, :], mask=k_mask, other=0.0)
        scores = tl.dot(q, k_tile.T, input_precision=PRECISION)
        if TERMS:
            scores, flat = with_terms(scores, rows[:, None], j[None, :], queries, keys, scale, soft_cap, bias, bias_row,
                                      has_bias, slope, has_alibi, False)
        elif MASKED:
            scores = scores * scale
        if MASKED:
            seen = seen_by(rows[:, None], j[None, :], keys, diagonal, left, right)
            scores = tl.where(seen, scores, float("-inf"))
            now = tl.maximum(largest, tl.max(scores, 1))
            shift = tl.where(now == float("-inf"), 0.0, now)
            weights = tl.exp2(scores - shift[:, None])
        else:  # scaling and subtracting are one operation, then
            now = tl.maximum(largest, tl.max(scores, 1) * scale)
            shift = now
            weights = tl.exp2(scores * scale - shift[:, None])
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.sum(weights, 1)
        if TERMS:
            if dropout_p != 0.0:
                keep = kept(seed, offset, head, rows, start, threshold_of(dropout_p), BLOCK_M, BLOCK_N)
                weights = tl.where(keep, weights, 0.0)
        acc = acc * rescale[:, None]
        if MAPPED:
            v_tile = v.load([at_batch, at_head, start, 0]).reshape(BLOCK_N, BLOCK_DV)
        else:
            v_tile = tl.load(v + v_rows[:, None] + dims_v[None, :], mask=v_mask, other=0.0)
        acc = tl.dot(weights.to(v_tile.dtype), v_tile, acc, input_precision=PRECISION)
        largest = now
    return acc, total, largest


@triton.jit
def place(heads, batch, seqlen_q, group, BLOCK_M: tl.constexpr):
    """Tile, head and batch entry of this block: heads in groups whose keys fit into the L2 cache, and in a group
    the last rows first, which see the most keys under a causal mask."""
    block = tl.program_id(0)
    tiles = tl.cdiv(seqlen_q, BLOCK_M)
    per_group = group * tiles
    first = (block // per_group) * group
    here = tl.minimum(heads * batch - first, group)
    at = block % per_group
    item = first + at % here
    return tiles - 1 - at // here, item % heads, item // heads


@triton.jit
def attention_forward(
    q, k, v, out, lse, bias, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, block_table,
    dropout_state,
    batch, heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # strides over UNIT
    out_batch, out_head, out_token, bias_batch, bias_head, bias_row, lse_batch, lse_head,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    UNIT: tl.constexpr, PAGED: tl.constexpr, MAPPED: tl.constexpr, PLAIN: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """`left` and `right` are -1 for no window; `has` has a bit for each pointer that is given, from the lowest: bias,
    alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, dropout_state, lse. UNIT divides strides and
    head dims. MAPPED: k and v are host tensor descriptors of [batch, heads_kv, seqlen_k, dim]. PLAIN: dense, no windows
    but the mask's, no sinks. TERMS: soft cap, bias, ALiBi and dropout are possible, and every tile is masked."""
    tile, h, b = place(heads, batch, queries_max, group, BLOCK_M)
    lengths = has
    if PLAIN:
        lengths = 0
    # `entry` is what the batch strides of q, out and lse count.
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, lengths, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    begin = tile * BLOCK_M
    if not PLAIN:
        if begin >= queries:
            return
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    rows = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)

    q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + (first_query + begin) * q_token) * UNIT
    q_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (q_token * UNIT)
    q_tile = tl.load(q_at + q_rows[:, None] + dims[None, :],
                     mask=(rows < queries)[:, None] & (dims < head_dim)[None, :], other=0.0)
    factor = scale
    if not TERMS:
        factor = factor * LOG2E

    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)

    k_at = k
    v_at = v
    if not MAPPED:
        k_at = k + h_kv.to(tl.int64) * k_head * UNIT
        v_at = v + h_kv.to(tl.int64) * v_head * UNIT
        if not PAGED:
            k_at += (entry_k * k_batch + first_key * k_token) * UNIT
            v_at += (entry_k * v_batch + first_key * v_token) * UNIT
    table = block_table
    if PAGED:
        table += b.to(tl.int64) * block_table_stride

    # The keys that the tile's rows see, and of those the ones that every row sees.
    diagonal = (keys - queries) * bottom_right
    end = tl.minimum(begin + BLOCK_M, queries)
    right = tl.where(right < 0, 1 << 30, right)
    hi = tl.maximum(tl.minimum(keys, end + diagonal + right), 0)
    full_end = tl.maximum(tl.minimum(keys, begin + diagonal + right + 1), 0)
    lo = tl.full([], 0, tl.int32)
    full_begin = lo
    if not PLAIN:
        if left >= 0:
            lo = tl.minimum(tl.maximum(begin + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N
            full_begin = tl.cdiv(tl.maximum(end - 1 + diagonal - left, 0), BLOCK_N) * BLOCK_N
        full_begin = tl.minimum(full_begin, tl.cdiv(hi, BLOCK_N) * BLOCK_N)
    # The middle takes the largest product for the largest score, which a scale that is not positive forbids.
    full_end = tl.where(scale > 0.0, tl.maximum(full_end // BLOCK_N * BLOCK_N, full_begin), full_begin)
    left = tl.where(left < 0, 1 << 30, left)

    slope = 0.0
    seed = dropout_seed
    offset = dropout_offset
    bias_at = bias
    if TERMS:
        if has & 2:
            slope = tl.load(alibi_slopes + h)
        if has & 128:
            seed = tl.load(dropout_state)
            offset = tl.load(dropout_state + 1)
        bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
    has_bias = (has & 1) != 0
    has_alibi = (has & 2) != 0
    item = b * heads + h
    if TERMS:
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, lo, hi, rows, queries, keys, diagonal, left, right, factor,
            k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT, table, page_size, head_dim, head_dim_v,
            b, h_kv, soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, MAPPED, TERMS, PRECISION)
    else:
        if not PLAIN:
            acc, total, largest = take_keys(
                acc, total, largest, q_tile, k_at, v_at, lo, tl.minimum(full_begin, hi), rows, queries, keys,
                diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT,
                table, page_size, head_dim, head_dim_v,
                b, h_kv, soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, MAPPED, TERMS, PRECISION)
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, full_begin, full_end, rows, queries, keys,
            diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT,
            table, page_size, head_dim, head_dim_v,
            b, h_kv, soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, PAGED, MAPPED, TERMS, PRECISION)
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, full_end, hi, rows, queries, keys,
            diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT,
            table, page_size, head_dim, head_dim_v,
            b, h_kv, soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, MAPPED, TERMS, PRECISION)

    if not PLAIN:
        if has & 4:  # joins last, so that weights are not small beside it while they are in low precision
            sink = tl.load(sinks + h) * LOG2E
            now = tl.maximum(largest, sink)
            shift = tl.where(now == float("-inf"), 0.0, now)
            rescale = tl.exp2(largest - shift)
            total = total * rescale + tl.exp2(sink - shift)
            acc = acc * rescale[:, None]
            largest = now
    empty = total == 0.0
    share = total
    if TERMS:
        share = total * (1.0 - dropout_p)
    acc = acc * tl.where(empty, 0.0, 1.0 / share)[:, None]
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + (first_query + begin) * out_token) * UNIT
    out_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (out_token * UNIT)
    tl.store(out_at + out_rows[:, None] + dims_v[None, :], acc.to(out.dtype.element_ty),
             mask=(rows < queries)[:, None] & (dims_v < head_dim_v)[None, :])
    if has & 256:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        # With cu_seqlens_q lse is [heads, tokens], else [batch, heads, seqlen_q].
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + rows, value,
                 mask=rows < queries)


@triton.jit
def attention_split(
    q, k, v, out, lse, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, block_table, partial, partial_lse,
    batch, heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # strides over UNIT
    out_batch, out_head, out_token, lse_batch, lse_head,
    scale, left, right, bottom_right, has, splits,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    UNIT: tl.constexpr, PAGED: tl.constexpr, PARTIAL: tl.constexpr, OVERLAP: tl.constexpr,
):
    """For few queries: the query heads that share a KV head lie in one tile, and the keys are split over `splits`
    blocks. PARTIAL: results are f32 in `partial`, [splits, batch, heads, seqlen_q, head_dim_v], with their base-2 LSE
    in `partial_lse`, for attention_combine; else there is one split. `left` to `has` as in attention_forward. OVERLAP:
    attention_combine is launched as a programmatic dependent, and may be resident before this ends."""
    if OVERLAP:
        gdc_launch_dependents()
    split = tl.program_id(0)
    tile = tl.program_id(1)
    h_kv = tl.program_id(2) % heads_kv
    b = tl.program_id(2) // heads_kv
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    share = heads // heads_kv
    begin = tile * BLOCK_M // share
    if begin >= queries:
        return
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    at = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = at // share
    h = h_kv * share + at % share
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    live = rows < queries
    q_rows = (entry * q_batch + h.to(tl.int64) * q_head + (first_query + rows) * q_token) * UNIT
    q_tile = tl.load(q + q_rows[:, None] + dims[None, :], mask=live[:, None] & (dims < head_dim)[None, :], other=0.0)
    factor = scale * LOG2E
    k_at = k + h_kv.to(tl.int64) * k_head * UNIT
    v_at = v + h_kv.to(tl.int64) * v_head * UNIT
    table = block_table
    if PAGED:
        table += b.to(tl.int64) * block_table_stride
    else:
        k_at += (entry_k * k_batch + first_key * k_token) * UNIT
        v_at += (entry_k * v_batch + first_key * v_token) * UNIT

    diagonal = (keys - queries) * bottom_right
    end = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // share + 1, queries)
    left = tl.where(left < 0, 1 << 30, left)
    right = tl.where(right < 0, 1 << 30, right)
    hi = tl.maximum(tl.minimum(keys, end + diagonal + right), 0)
    lo = tl.minimum(tl.maximum(begin + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N
    full_begin = tl.cdiv(tl.maximum(end - 1 + diagonal - left, 0), BLOCK_N) * BLOCK_N
    full_end = tl.maximum(tl.minimum(keys, begin + diagonal + right + 1), 0) // BLOCK_N * BLOCK_N
    full_end = tl.where(scale > 0.0, full_end, 0)
    part = tl.cdiv(tl.cdiv(hi - lo, BLOCK_N), splits) * BLOCK_N
    lo = lo + split * part
    hi = tl.minimum(hi, lo + part)
    full_begin = tl.minimum(tl.maximum(full_begin, lo), tl.maximum(hi, lo))
    full_end = tl.maximum(tl.minimum(full_end, hi), full_begin)

    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    acc, total, largest = take_keys(
        acc, total, largest, q_tile, k_at, v_at, lo, full_begin, rows, queries, keys, diagonal, left, right, factor,
        k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT, table, page_size, head_dim, head_dim_v,
        b, h_kv, 0.0, k, 0, False, 0.0, False, 0.0, 0, 0, 0,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, False, False, "ieee")
    acc, total, largest = take_keys(
        acc, total, largest, q_tile, k_at, v_at, full_begin, full_end, rows, queries, keys, diagonal, left, right,
        factor, k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT, table, page_size, head_dim, head_dim_v,
        b, h_kv, 0.0, k, 0, False, 0.0, False, 0.0, 0, 0, 0,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, PAGED, False, False, "ieee")
    acc, total, largest = take_keys(
        acc, total, largest, q_tile, k_at, v_at, full_end, hi, rows, queries, keys, diagonal, left, right, factor,
        k_token * UNIT, v_token * UNIT, k_batch * UNIT, v_batch * UNIT, table, page_size, head_dim, head_dim_v,
        b, h_kv, 0.0, k, 0, False, 0.0, False, 0.0, 0, 0, 0,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, False, False, "ieee")

    if not PARTIAL:
        if has & 4:
            sink = tl.load(sinks + h) * LOG2E
            now = tl.maximum(largest, sink)
            shift = tl.where(now == float("-inf"), 0.0, now)
            rescale = tl.exp2(largest - shift)
            total = total * rescale + tl.exp2(sink - shift)
            acc = acc * rescale[:, None]
            largest = now
    empty = total == 0.0
    acc = acc * tl.where(empty, 0.0, 1.0 / total)[:, None]
    value = tl.where(empty, float("-inf"), largest + tl.log2(total))
    stored = live[:, None] & (dims_v < head_dim_v)[None, :]
    if PARTIAL:
        row = ((split * batch + b).to(tl.int64) * heads + h) * queries_max + rows
        tl.store(partial_lse + row, value, mask=live)
        tl.store(partial + row[:, None] * head_dim_v + dims_v[None, :], acc, mask=stored)
    else:
        out_rows = (entry * out_batch + h.to(tl.int64) * out_head + (first_query + rows) * out_token) * UNIT
        tl.store(out + out_rows[:, None] + dims_v[None, :], acc.to(out.dtype.element_ty), mask=stored)
        if has & 256:
            tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + rows, value * LN2, mask=live)


@triton.jit
def attention_combine(
    partial, partial_lse, out, lse, sinks, cu_seqlens_q, seqused_q,
    batch, heads, queries_max, head_dim_v, out_batch, out_head, out_token, lse_batch, lse_head, has, splits,
    BLOCK_DV: tl.constexpr, UNIT: tl.constexpr, OVERLAP: tl.constexpr,
):
    """One row of the output from what attention_split made of it."""
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
    dims = tl.arange(0, BLOCK_DV)
    head_dim_v = head_dim_v * UNIT
    row = ((b.to(tl.int64) * heads) + h) * queries_max + i
    step = batch.to(tl.int64) * heads * queries_max
    largest = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    if has & 4:
        largest = tl.load(sinks + h) * LOG2E
        total = tl.where(largest == float("-inf"), 0.0, 1.0)
    acc = tl.zeros([BLOCK_DV], tl.float32)
    if OVERLAP:
        gdc_wait()
    for first in tl.range(0, splits, 8):
        s = first + tl.arange(0, 8)
        there = s < splits
        each = tl.load(partial_lse + row + s * step, mask=there, other=float("-inf"))
        there = there & (each > float("-inf"))
        values = tl.load(partial + (row + s * step)[:, None] * head_dim_v + dims[None, :],
                         mask=there[:, None] & (dims < head_dim_v)[None, :], other=0.0)
        now = tl.maximum(largest, tl.max(each, 0))
        shift = tl.where(now == float("-inf"), 0.0, now)
        weights = tl.exp2(each - shift)
        rescale = tl.exp2(largest - shift)
        acc = acc * rescale + tl.sum(values * weights[:, None], 0)
        total = total * rescale + tl.sum(weights, 0)
        largest = now
    empty = total == 0.0
    acc = acc * tl.where(empty, 0.0, 1.0 / total)
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + (first_query + i) * out_token) * UNIT
    tl.store(out_at + dims, acc.to(out.dtype.element_ty), mask=dims < head_dim_v)
    if has & 256:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + i, value)
