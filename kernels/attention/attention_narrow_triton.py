# SPDX-License-Identifier: MIT
"""Attention forward over keys and values in e4m3 with scales, for every GPU, compiled ahead of time. The meaning of a
call is that of operators/attention_forward.hpp.

The blocks, the masks and the softmax are those of attention_triton.py. Keys and values become f16, which holds e4m3
exactly, and so do queries in bf16 once their row is divided by a power of two; the scale of the keys joins that of the
scores, and the scale of the values the last division. A file of its own, so that the blobs of attention_triton.py
do not depend on it.
"""

import triton
import triton.language as tl
from attention_decode_triton import rows_of_keys, widened
from attention_terms import LN2, LOG2E, kept, place_sequence, seen_by, threshold_of, with_terms
from attention_triton import place


@triton.jit
def wide(tile, NATIVE: tl.constexpr):
    """e4m3 in bytes as f16. NATIVE: the device has an instruction for the OCP format."""
    if NATIVE:
        return tile.to(tl.float8e4nv, bitcast=True).to(tl.float16)
    return widened(tile)


@triton.jit
def take_keys(
    acc, total, largest, q, k, v, first, last,  # keys [first, last); first is a multiple of BLOCK_N
    rows, queries, keys, diagonal, left, right, factor,
    k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
    soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, PAGED: tl.constexpr, NATIVE: tl.constexpr, TERMS: tl.constexpr,
):
    """`factor` is what the products of a row are multiplied with."""
    columns = tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    for start in tl.range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        j = start + columns
        there = j < keys
        k_rows = rows_of_keys(j, table, there, page_size, k_page, k_token, PAGED)
        v_rows = rows_of_keys(j, table, there, page_size, v_page, v_token, PAGED)
        k_mask = (dims < head_dim)[None, :]
        v_mask = (dims_v < head_dim_v)[None, :]
        if MASKED:
            k_mask = k_mask & there[:, None]
            v_mask = v_mask & there[:, None]
        k_tile = wide(tl.load(k + k_rows[:, None] + dims[None, :], mask=k_mask, other=0), NATIVE)
        scores = tl.dot(q, k_tile.T)
        if TERMS:
            scores, flat = with_terms(scores, rows[:, None], j[None, :], queries, keys, factor[:, None], soft_cap,
                                      bias, bias_row, has_bias, slope, has_alibi, False)
        elif MASKED:
            scores = scores * factor[:, None]
        if MASKED:
            seen = seen_by(rows[:, None], j[None, :], keys, diagonal, left, right)
            scores = tl.where(seen, scores, float("-inf"))
            now = tl.maximum(largest, tl.max(scores, 1))
            shift = tl.where(now == float("-inf"), 0.0, now)
            weights = tl.exp2(scores - shift[:, None])
        else:  # scaling and subtracting are one operation, then
            now = tl.maximum(largest, tl.max(scores, 1) * factor)
            shift = now
            weights = tl.exp2(scores * factor[:, None] - shift[:, None])
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.sum(weights, 1)
        if TERMS:
            if dropout_p != 0.0:
                keep = kept(seed, offset, item, rows, start, threshold_of(dropout_p), BLOCK_M, BLOCK_N)
                weights = tl.where(keep, weights, 0.0)
        v_tile = wide(tl.load(v + v_rows[:, None] + dims_v[None, :], mask=v_mask, other=0), NATIVE)
        acc = tl.dot(weights.to(tl.float16), v_tile, acc * rescale[:, None])
        largest = now
    return acc, total, largest


@triton.jit
def attention_narrow(
    q, k, v, out, lse, k_scale, v_scale, bias, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
    block_table, dropout_state,
    batch, heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token,  # strides over UNIT, as those of out
    k_batch, k_head, k_token, v_batch, v_head, v_token,  # over KV_UNIT, as the head dims
    out_batch, out_head, out_token, bias_batch, bias_head, bias_row, lse_batch, lse_head,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    UNIT: tl.constexpr, KV_UNIT: tl.constexpr, PAGED: tl.constexpr, NATIVE: tl.constexpr, TERMS: tl.constexpr,
):
    """`left`, `right` and `has` are those of attention_forward; bits 512 and 1024 of `has` say that
    each KV head has its own k_scale and v_scale, which may be null. TERMS: soft cap, bias, ALiBi and dropout are possible, and every tile is masked."""
    tile, h, b = place(heads, batch, queries_max, group, BLOCK_M)
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    begin = tile * BLOCK_M
    if begin >= queries:
        return
    head_dim = head_dim * KV_UNIT
    head_dim_v = head_dim_v * KV_UNIT
    rows = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)

    q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + (first_query + begin) * q_token) * UNIT
    q_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (q_token * UNIT)
    q_tile = tl.load(q_at + q_rows[:, None] + dims[None, :],
                     mask=(rows < queries)[:, None] & (dims < head_dim)[None, :], other=0.0)
    scaled = scale
    if k_scale.to(tl.int64) != 0:
        scaled = scaled * tl.load(k_scale + h_kv * ((has >> 9) & 1))
    factor = tl.zeros([BLOCK_M], tl.float32) + scaled
    if not TERMS:
        factor = factor * LOG2E
    if q_tile.dtype == tl.bfloat16:
        values = q_tile.to(tl.float32)
        exponent = tl.max(tl.abs(values), 1).to(tl.int32, bitcast=True) >> 23
        exponent = tl.minimum(tl.maximum(exponent, 1), 253)  # the inverse is to be a float as well
        factor = factor * (exponent << 23).to(tl.float32, bitcast=True)
        q_tile = (values * ((254 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]).to(tl.float16)

    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    k_at = k + h_kv.to(tl.int64) * k_head * KV_UNIT
    v_at = v + h_kv.to(tl.int64) * v_head * KV_UNIT
    table = block_table
    if PAGED:
        table += b.to(tl.int64) * block_table_stride
    else:
        k_at += (entry_k * k_batch + first_key * k_token) * KV_UNIT
        v_at += (entry_k * v_batch + first_key * v_token) * KV_UNIT
    k_token = k_token * KV_UNIT
    v_token = v_token * KV_UNIT
    k_page = k_batch * KV_UNIT
    v_page = v_batch * KV_UNIT

    # The keys that the tile's rows see, and of those the ones that every row sees.
    diagonal = (keys - queries) * bottom_right
    end = tl.minimum(begin + BLOCK_M, queries)
    right = tl.where(right < 0, 1 << 30, right)
    left = tl.where(left < 0, 1 << 30, left)
    hi = tl.maximum(tl.minimum(keys, end + diagonal + right), 0)
    lo = tl.minimum(tl.maximum(begin + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N

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
            k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
            soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, NATIVE, TERMS)
    else:
        full_end = tl.maximum(tl.minimum(keys, begin + diagonal + right + 1), 0)
        full_begin = tl.cdiv(tl.maximum(end - 1 + diagonal - left, 0), BLOCK_N) * BLOCK_N
        full_begin = tl.maximum(tl.minimum(full_begin, tl.cdiv(hi, BLOCK_N) * BLOCK_N), lo)
        # The middle takes the largest product for the largest score, which a scale that is not positive forbids.
        full_end = tl.where(scaled > 0.0, tl.maximum(full_end // BLOCK_N * BLOCK_N, full_begin), full_begin)
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, lo, tl.minimum(full_begin, hi), rows, queries, keys,
            diagonal, left, right, factor, k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
            soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, NATIVE, TERMS)
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, full_begin, full_end, rows, queries, keys,
            diagonal, left, right, factor, k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
            soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, PAGED, NATIVE, TERMS)
        acc, total, largest = take_keys(
            acc, total, largest, q_tile, k_at, v_at, full_end, hi, rows, queries, keys,
            diagonal, left, right, factor, k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
            soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, NATIVE, TERMS)

    if has & 4:  # joins last, so that weights are not small beside it while they are in low precision
        sink = tl.load(sinks + h) * LOG2E
        now = tl.maximum(largest, sink)
        shift = tl.where(now == float("-inf"), 0.0, now)
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.exp2(sink - shift)
        acc = acc * rescale[:, None]
        largest = now
    empty = total == 0.0
    multiplier = 1.0
    if v_scale.to(tl.int64) != 0:
        multiplier = tl.load(v_scale + h_kv * ((has >> 10) & 1))
    share = total
    if TERMS:
        share = total * (1.0 - dropout_p)
    acc = acc * tl.where(empty, 0.0, multiplier / share)[:, None]
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + (first_query + begin) * out_token) * UNIT
    out_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (out_token * UNIT)
    tl.store(out_at + out_rows[:, None] + dims_v[None, :], acc.to(out.dtype.element_ty),
             mask=(rows < queries)[:, None] & (dims_v < head_dim_v)[None, :])
    if has & 256:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + rows, value,
                 mask=rows < queries)
