# SPDX-License-Identifier: MIT
"""Attention backward for every GPU, compiled ahead of time. The meaning of a call is that of
operators/attention_backward.hpp.

Two ways. *Split*: the row sums of dout * out, then dk and dv (a block of keys meets all queries that see it), then dq
(a block of queries meets its keys): seven matrix products, and nothing is added up through memory, so that results are
the same in every run. *Fused*: while a block of keys meets its queries, its share of dq is added to an f32 sum in
memory, which a last launch scales and rounds: five products, but sums in no fixed order. The gradient of the bias is
a launch of its own: a block owns a tile of it and goes through everything that is broadcast to the tile. After Dao,
FlashAttention-2 (arXiv:2307.08691).
"""

import triton
import triton.language as tl
from attention_terms import LOG2E, kept, place_sequence, seen_by, threshold_of, with_terms


@triton.jit
def load_tile(tensor, at, at_batch, at_head, start, token, tokens, dim,
              ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, MAPPED: tl.constexpr):
    """Rows [start, start + ROWS) of a tensor's head: from a descriptor, or from pointer `at` with stride `token`."""
    if MAPPED:
        tile = tensor.load([at_batch, at_head, start, 0]).reshape(ROWS, BLOCK)
    else:
        dims = tl.arange(0, BLOCK)
        rows = start + tl.arange(0, ROWS)
        mask = (dims < dim)[None, :]
        if MASKED:
            mask = mask & (rows < tokens)[:, None]
        tile = tl.load(at + (rows.to(tl.int64) * token)[:, None] + dims[None, :], mask=mask, other=0.0)
    return tile


@triton.jit
def weights_of(
    products, j, i, keys, queries, diagonal, left, right, scale, lse,  # j, i, lse shaped to broadcast
    soft_cap, bias, bias_row, has_bias, slope, has_alibi,
    MASKED: tl.constexpr, TERMS: tl.constexpr,
):
    """The softmax's weights of a tile of products, and by how much the cap flattens them. Rows that are not there have
    an infinite LSE."""
    if TERMS:
        scores, flat = with_terms(products, i, j, queries, keys, scale, soft_cap, bias, bias_row, has_bias, slope,
                                  has_alibi, True)
    else:
        scores = products * scale
        flat = products
    weights = tl.exp2(scores - lse)
    if MASKED:
        weights = tl.where(seen_by(i, j, keys, diagonal, left, right) & (i < queries), weights, 0.0)
    return weights, flat


@triton.jit
def attention_backward_sums(
    out, dout, lse, delta, scaled_lse, cu_seqlens_q, seqused_q,
    heads, queries_max, rows, head_dim_v, out_batch, out_head, out_token, dout_batch, dout_head, dout_token,
    lse_batch, lse_head, has, dlse, dlse_batch, dlse_head,
    BLOCK_M: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr, WITH_DLSE: tl.constexpr,
):
    """delta = sum of dout * out, and the LSE in base 2 (infinite, so that weights are 0, for rows without keys and rows
    that are not there); both [batch, heads, rows], `rows` being seqlen_q rounded up to whole tiles. WITH_DLSE: delta is
    less by the LSE's gradient, which may be NaN for rows without keys."""
    tiles = tl.cdiv(rows, BLOCK_M)
    tile = tl.program_id(0) % tiles
    h = tl.program_id(0) // tiles % heads
    b = tl.program_id(0) // tiles // heads
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has & 40, cu_seqlens_q, cu_seqlens_q, seqused_q, seqused_q, queries_max, queries_max)
    i = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_DV)
    live = i < queries
    mask = live[:, None] & (dims < head_dim_v * UNIT)[None, :]
    token = first_query + i
    o = tl.load(out + ((entry * out_batch + h.to(tl.int64) * out_head + token * out_token) * UNIT)[:, None] +
                dims[None, :], mask=mask, other=0.0).to(tl.float32)
    do = tl.load(dout + ((entry * dout_batch + h.to(tl.int64) * dout_head + token * dout_token) * UNIT)[:, None] +
                 dims[None, :], mask=mask, other=0.0).to(tl.float32)
    value = tl.load(lse + entry * lse_batch + h.to(tl.int64) * lse_head + token, mask=live, other=float("inf"))
    if WITH_DLSE:
        slope = tl.load(dlse + entry * dlse_batch + h.to(tl.int64) * dlse_head + token,
                        mask=live & (value != float("-inf")), other=0.0)
    value = tl.where(value == float("-inf"), float("inf"), value * LOG2E)
    row = (b * heads + h).to(tl.int64) * rows + i
    if WITH_DLSE:
        tl.store(delta + row, tl.sum(o * do, 1) - slope, mask=i < rows)
    else:
        tl.store(delta + row, tl.sum(o * do, 1), mask=i < rows)
    tl.store(scaled_lse + row, value, mask=i < rows)


@triton.jit
def take_queries(
    dk, dv, k, v, q, q_at, dout, dout_at, dq_sum, lse, delta, first, last,
    j, queries, keys, diagonal, left, right, scale, q_token, dout_token, head_dim, head_dim_v,
    soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, at_batch, at_head, heads,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, MAPPED: tl.constexpr, FUSED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    head = at_batch * heads + at_head
    for start in tl.range(first, last, BLOCK_M):
        start = tl.multiple_of(start, BLOCK_M)
        i = start + tl.arange(0, BLOCK_M)
        q_tile = load_tile(q, q_at, at_batch, at_head, start, q_token, queries, head_dim, BLOCK_M, BLOCK_D, MASKED,
                           MAPPED)
        products = tl.dot(k, q_tile.T, input_precision=PRECISION)
        row_lse = tl.load(lse + i)
        row_delta = tl.load(delta + i)
        weights, flat = weights_of(products, j[:, None], i[None, :], keys, queries, diagonal, left, right, scale,
                                   row_lse[None, :], soft_cap, bias, bias_row, has_bias, slope, has_alibi, MASKED,
                                   TERMS)
        dout_tile = load_tile(dout, dout_at, at_batch, at_head, start, dout_token, queries, head_dim_v, BLOCK_M,
                              BLOCK_DV, MASKED, MAPPED)
        slopes = tl.dot(v, dout_tile.T, input_precision=PRECISION)
        dropped = weights
        if TERMS:
            if dropout_p != 0.0:
                # Random words lie along keys, so the mask is made for [queries, keys].
                keep = kept(seed, offset, head, i, tl.min(j, 0), threshold_of(dropout_p), BLOCK_M, BLOCK_N)
                keep = tl.trans(keep.to(tl.int8)) != 0
                dropped = tl.where(keep, weights / (1.0 - dropout_p), 0.0)
                slopes = tl.where(keep, slopes / (1.0 - dropout_p), 0.0)
        dv = tl.dot(dropped.to(dout_tile.dtype), dout_tile, dv, input_precision=PRECISION)
        slopes = weights * (slopes - row_delta[None, :])
        if TERMS:
            slopes = slopes * flat
        slopes = slopes.to(q_tile.dtype)
        dk = tl.dot(slopes, q_tile, dk, input_precision=PRECISION)
        if FUSED:
            share = tl.dot(tl.trans(slopes), k, input_precision=PRECISION)
            tl.atomic_add(dq_sum + i.to(tl.int64)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :], share,
                          sem="relaxed")
    return dk, dv


@triton.jit
def attention_backward_keys(
    q, k, v, dout, dk, dv, dq_sum, delta, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
    dropout_state,
    heads, heads_kv, queries_max, keys_max, rows, head_dim, head_dim_v,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dk_batch, dk_head, dk_token, dv_batch, dv_head, dv_token, bias_batch, bias_head, bias_row,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    MAPPED: tl.constexpr, FUSED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    """dk and dv of a block of keys. `has`, `left`, `right`, UNIT and TERMS as in attention_forward; `lse` and `delta`
    as attention_backward_sums leaves them. MAPPED: q and dout are host tensor descriptors of [batch, heads, seqlen_q,
    dim], lengths are the same for all, and there are no windows but the mask's. FUSED: dq, without its scale, is
    added to `dq_sum`, [batch, heads, rows, BLOCK_D]."""
    tiles = tl.cdiv(keys_max, BLOCK_N)
    tile = tl.program_id(0) % tiles
    h_kv = tl.program_id(0) // tiles % heads_kv
    b = tl.program_id(0) // tiles // heads_kv
    if MAPPED:
        has = 0
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    begin = tile * BLOCK_N
    if begin >= keys:
        return
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    n = tl.arange(0, BLOCK_N)
    j = begin + n
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    token = (first_key + j)
    mask = (j < keys)[:, None] & (dims < head_dim)[None, :]
    mask_v = (j < keys)[:, None] & (dims_v < head_dim_v)[None, :]
    k_tile = tl.load(k + ((entry_k * k_batch + h_kv.to(tl.int64) * k_head + token * k_token) * UNIT)[:, None] +
                     dims[None, :], mask=mask, other=0.0)
    v_tile = tl.load(v + ((entry_k * v_batch + h_kv.to(tl.int64) * v_head + token * v_token) * UNIT)[:, None] +
                     dims_v[None, :], mask=mask_v, other=0.0)
    dk_tile = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv_tile = tl.zeros([BLOCK_N, BLOCK_DV], tl.float32)

    # The queries that see the block's keys, and of those the ones that see all of them.
    diagonal = (keys - queries) * bottom_right
    left = tl.where(left < 0, 1 << 30, left)
    right = tl.where(right < 0, 1 << 30, right)
    last_key = tl.minimum(begin + BLOCK_N, keys) - 1
    hi = tl.maximum(tl.minimum(queries, last_key - diagonal + left + 1), 0)
    lo = tl.minimum(tl.maximum(begin - diagonal - right, 0), hi) // BLOCK_M * BLOCK_M
    full_begin = tl.cdiv(tl.maximum(begin + BLOCK_N - 1 - diagonal - right, 0), BLOCK_M) * BLOCK_M
    full_begin = tl.minimum(full_begin, tl.cdiv(hi, BLOCK_M) * BLOCK_M)
    if MAPPED:  # rows behind the last are zero, and of infinite LSE
        full_end = tl.cdiv(hi, BLOCK_M) * BLOCK_M
        full_begin = tl.where(begin + BLOCK_N <= keys, full_begin, full_end)
    else:
        full_end = tl.maximum(tl.minimum(queries, begin - diagonal + left + 1), 0) // BLOCK_M * BLOCK_M
        full_end = tl.where(begin + BLOCK_N <= keys, tl.maximum(full_end, full_begin), full_begin)

    share = heads // heads_kv
    slope = 0.0
    seed = dropout_seed
    offset = dropout_offset
    factor = scale
    if TERMS:
        if has & 128:
            seed = tl.load(dropout_state)
            offset = tl.load(dropout_state + 1)
    else:
        factor = scale * LOG2E
    for member in tl.range(0, share, num_stages=1):
        h = h_kv * share + member
        q_at = q
        dout_at = dout
        if not MAPPED:
            q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + first_query * q_token) * UNIT
            dout_at = dout + (entry * dout_batch + h.to(tl.int64) * dout_head + first_query * dout_token) * UNIT
        row = (b * heads + h).to(tl.int64) * rows
        dq_at = dq_sum + row * BLOCK_D
        if TERMS:
            bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
            slope = tl.load(alibi_slopes + h, mask=(has & 2) != 0, other=0.0)
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, dq_at, lse + row, delta + row, lo, hi, j,
                queries, keys, diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim, head_dim_v,
                soft_cap, bias_at, bias_row, (has & 1) != 0, slope, (has & 2) != 0, dropout_p, seed, offset, b, h,
                heads, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, FUSED, TERMS, PRECISION)
        else:
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, dq_at, lse + row, delta + row, lo,
                tl.minimum(full_begin, hi), j, queries, keys, diagonal, left, right, factor, q_token * UNIT,
                dout_token * UNIT, head_dim, head_dim_v, soft_cap, bias, bias_row, False, slope, False, dropout_p,
                seed, offset, b, h, heads, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, FUSED, TERMS, PRECISION)
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, dq_at, lse + row, delta + row, full_begin,
                full_end, j, queries, keys, diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim,
                head_dim_v, soft_cap, bias, bias_row, False, slope, False, dropout_p, seed, offset, b, h, heads,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, MAPPED, FUSED, TERMS, PRECISION)
            if not MAPPED:
                dk_tile, dv_tile = take_queries(
                    dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, dq_at, lse + row, delta + row, full_end,
                    hi, j, queries, keys, diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim,
                    head_dim_v, soft_cap, bias, bias_row, False, slope, False, dropout_p, seed, offset, b, h, heads,
                    BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, FUSED, TERMS, PRECISION)

    tl.store(dk + ((entry_k * dk_batch + h_kv.to(tl.int64) * dk_head + token * dk_token) * UNIT)[:, None] +
             dims[None, :], (dk_tile * scale).to(dk.dtype.element_ty), mask=mask)
    tl.store(dv + ((entry_k * dv_batch + h_kv.to(tl.int64) * dv_head + token * dv_token) * UNIT)[:, None] +
             dims_v[None, :], dv_tile.to(dv.dtype.element_ty), mask=mask_v)


@triton.jit
def attention_backward_finish(
    dq_sum, dq, cu_seqlens_q, seqused_q, heads, queries_max, rows, head_dim, dq_batch, dq_head, dq_token, scale, has,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr,
):
    """dq of the sums that the fused kernel made."""
    tiles = tl.cdiv(queries_max, BLOCK_M)
    tile = tl.program_id(0) % tiles
    h = tl.program_id(0) // tiles % heads
    b = tl.program_id(0) // tiles // heads
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has & 40, cu_seqlens_q, cu_seqlens_q, seqused_q, seqused_q, queries_max, queries_max)
    i = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    mask = (i < queries)[:, None] & (dims < head_dim * UNIT)[None, :]
    row = (b * heads + h).to(tl.int64) * rows + i
    value = tl.load(dq_sum + row[:, None] * BLOCK_D + dims[None, :], mask=mask, other=0.0)
    tl.store(dq + ((entry * dq_batch + h.to(tl.int64) * dq_head + (first_query + i) * dq_token) * UNIT)[:, None] +
             dims[None, :], (value * scale).to(dq.dtype.element_ty), mask=mask)


@triton.jit
def take_keys_for_dq(
    dq, q, dout, k, k_at, v, v_at, lse, delta, first, last,
    i, queries, keys, diagonal, left, right, scale, k_token, v_token, head_dim, head_dim_v,
    soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, head, at_batch, at_head,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, MAPPED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    for start in tl.range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        j = start + tl.arange(0, BLOCK_N)
        k_tile = load_tile(k, k_at, at_batch, at_head, start, k_token, keys, head_dim, BLOCK_N, BLOCK_D, MASKED, MAPPED)
        v_tile = load_tile(v, v_at, at_batch, at_head, start, v_token, keys, head_dim_v, BLOCK_N, BLOCK_DV, MASKED,
                           MAPPED)
        products = tl.dot(q, k_tile.T, input_precision=PRECISION)
        weights, flat = weights_of(products, j[None, :], i[:, None], keys, queries, diagonal, left, right, scale,
                                   lse[:, None], soft_cap, bias, bias_row, has_bias, slope, has_alibi, MASKED, TERMS)
        slopes = tl.dot(dout, v_tile.T, input_precision=PRECISION)
        if TERMS:
            if dropout_p != 0.0:
                keep = kept(seed, offset, head, i, start, threshold_of(dropout_p), BLOCK_M, BLOCK_N)
                slopes = tl.where(keep, slopes / (1.0 - dropout_p), 0.0)
        slopes = weights * (slopes - delta[:, None])
        if TERMS:
            slopes = slopes * flat
        dq = tl.dot(slopes.to(k_tile.dtype), k_tile, dq, input_precision=PRECISION)
    return dq


@triton.jit
def attention_backward_queries(
    q, k, v, dout, dq, delta, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, dropout_state,
    heads, heads_kv, queries_max, keys_max, rows, head_dim, head_dim_v,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dq_batch, dq_head, dq_token, bias_batch, bias_head, bias_row,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    MAPPED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    """dq of a block of queries. MAPPED: k and v are host tensor descriptors of [batch, heads_kv, seqlen_k, dim]; the
    rest as in attention_backward_keys."""
    tiles = tl.cdiv(queries_max, BLOCK_M)
    tile = tiles - 1 - tl.program_id(0) % tiles
    h = tl.program_id(0) // tiles % heads
    b = tl.program_id(0) // tiles // heads
    if MAPPED:
        has = 0
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
    begin = tile * BLOCK_M
    if begin >= queries:
        return
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    i = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)
    token = first_query + i
    mask = (i < queries)[:, None] & (dims < head_dim)[None, :]
    q_tile = tl.load(q + ((entry * q_batch + h.to(tl.int64) * q_head + token * q_token) * UNIT)[:, None] +
                     dims[None, :], mask=mask, other=0.0)
    dout_tile = tl.load(
        dout + ((entry * dout_batch + h.to(tl.int64) * dout_head + token * dout_token) * UNIT)[:, None] +
        dims_v[None, :], mask=(i < queries)[:, None] & (dims_v < head_dim_v)[None, :], other=0.0)
    row = (b * heads + h).to(tl.int64) * rows + i
    row_lse = tl.load(lse + row)
    row_delta = tl.load(delta + row)
    k_at = k
    v_at = v
    if not MAPPED:
        k_at = k + (entry_k * k_batch + h_kv.to(tl.int64) * k_head + first_key * k_token) * UNIT
        v_at = v + (entry_k * v_batch + h_kv.to(tl.int64) * v_head + first_key * v_token) * UNIT

    diagonal = (keys - queries) * bottom_right
    left = tl.where(left < 0, 1 << 30, left)
    right = tl.where(right < 0, 1 << 30, right)
    end = tl.minimum(begin + BLOCK_M, queries)
    hi = tl.maximum(tl.minimum(keys, end + diagonal + right), 0)
    lo = tl.minimum(tl.maximum(begin + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N
    full_begin = tl.cdiv(tl.maximum(end - 1 + diagonal - left, 0), BLOCK_N) * BLOCK_N
    full_begin = tl.minimum(full_begin, tl.cdiv(hi, BLOCK_N) * BLOCK_N)
    full_end = tl.maximum(tl.minimum(keys, begin + diagonal + right + 1), 0) // BLOCK_N * BLOCK_N
    full_end = tl.maximum(full_end, full_begin)

    dq_tile = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    if TERMS:
        seed = dropout_seed
        offset = dropout_offset
        if has & 128:
            seed = tl.load(dropout_state)
            offset = tl.load(dropout_state + 1)
        bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
        slope = tl.load(alibi_slopes + h, mask=(has & 2) != 0, other=0.0)
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, lo, hi, i, queries, keys, diagonal, left,
            right, scale, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias_at, bias_row,
            (has & 1) != 0, slope, (has & 2) != 0, dropout_p, seed, offset, b * heads + h, b, h_kv,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, TERMS, PRECISION)
    else:
        factor = scale * LOG2E
        if not MAPPED:
            dq_tile = take_keys_for_dq(
                dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, lo, tl.minimum(full_begin, hi), i,
                queries, keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v,
                soft_cap, bias, bias_row, False, 0.0, False, dropout_p, 0, 0, 0, b, h_kv,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, TERMS, PRECISION)
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, full_begin, full_end, i, queries,
            keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias,
            bias_row, False, 0.0, False, dropout_p, 0, 0, 0, b, h_kv,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, MAPPED, TERMS, PRECISION)
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, full_end, hi, i, queries,
            keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias,
            bias_row, False, 0.0, False, dropout_p, 0, 0, 0, b, h_kv,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, TERMS, PRECISION)

    tl.store(dq + ((entry * dq_batch + h.to(tl.int64) * dq_head + token * dq_token) * UNIT)[:, None] + dims[None, :],
             (dq_tile * scale).to(dq.dtype.element_ty), mask=mask)


@triton.jit
def attention_backward_bias(
    q, k, v, dout, dbias, delta, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
    dropout_state,
    batch, heads, heads_kv, queries_max, keys_max, rows, head_dim, head_dim_v,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    bias_batch, bias_head, bias_row, dbias_batch, dbias_head, dbias_row,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile of dbias: the sum over all batch entries, heads and rows that a zero stride maps to it."""
    tiles_n = tl.cdiv(keys_max, BLOCK_N)
    tiles_m = tl.cdiv(queries_max, BLOCK_M)
    at = tl.program_id(0)
    begin = at % tiles_n * BLOCK_N
    at = at // tiles_n
    own_tile = at % tl.where(dbias_row == 0, 1, tiles_m)
    at = at // tl.where(dbias_row == 0, 1, tiles_m)
    own_head = at % tl.where(dbias_head == 0, 1, heads)
    own_entry = at // tl.where(dbias_head == 0, 1, heads)
    first_tile = tl.where(dbias_row == 0, 0, own_tile)
    last_tile = tl.where(dbias_row == 0, tiles_m, own_tile + 1)
    first_head = tl.where(dbias_head == 0, 0, own_head)
    last_head = tl.where(dbias_head == 0, heads, own_head + 1)
    first_entry = tl.where(dbias_batch == 0, 0, own_entry)
    last_entry = tl.where(dbias_batch == 0, batch, own_entry + 1)

    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    j = begin + tl.arange(0, BLOCK_N)
    left = tl.where(left < 0, 1 << 30, left)
    right = tl.where(right < 0, 1 << 30, right)
    seed = dropout_seed
    offset = dropout_offset
    if has & 128:
        seed = tl.load(dropout_state)
        offset = tl.load(dropout_state + 1)
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for b in tl.range(first_entry, last_entry, num_stages=1):
        queries, keys, first_query, first_key, entry, entry_k = place_sequence(
            b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max)
        diagonal = (keys - queries) * bottom_right
        for h in tl.range(first_head, last_head, num_stages=1):
            h_kv = h // (heads // heads_kv)
            k_at = k + (entry_k * k_batch + h_kv.to(tl.int64) * k_head + first_key * k_token) * UNIT
            v_at = v + (entry_k * v_batch + h_kv.to(tl.int64) * v_head + first_key * v_token) * UNIT
            q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + first_query * q_token) * UNIT
            dout_at = dout + (entry * dout_batch + h.to(tl.int64) * dout_head + first_query * dout_token) * UNIT
            bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
            slope = tl.load(alibi_slopes + h, mask=(has & 2) != 0, other=0.0)
            row = (b * heads + h).to(tl.int64) * rows
            k_tile = load_tile(k, k_at, b, h_kv, begin, k_token * UNIT, keys, head_dim, BLOCK_N, BLOCK_D, True, False)
            v_tile = load_tile(v, v_at, b, h_kv, begin, v_token * UNIT, keys, head_dim_v, BLOCK_N, BLOCK_DV, True,
                               False)
            for tile in tl.range(first_tile, last_tile, num_stages=1):
                start = tile * BLOCK_M
                i = start + tl.arange(0, BLOCK_M)
                q_tile = load_tile(q, q_at, b, h, start, q_token * UNIT, queries, head_dim, BLOCK_M, BLOCK_D, True,
                                   False)
                dout_tile = load_tile(dout, dout_at, b, h, start, dout_token * UNIT, queries, head_dim_v, BLOCK_M,
                                      BLOCK_DV, True, False)
                row_lse = tl.load(lse + row + i)
                row_delta = tl.load(delta + row + i)
                products = tl.dot(q_tile, k_tile.T, input_precision=PRECISION)
                weights, flat = weights_of(
                    products, j[None, :], i[:, None], keys, queries, diagonal, left, right, scale, row_lse[:, None],
                    soft_cap, bias_at, bias_row, (has & 1) != 0, slope, (has & 2) != 0, True, True)
                slopes = tl.dot(dout_tile, v_tile.T, input_precision=PRECISION)
                if dropout_p != 0.0:
                    keep = kept(seed, offset, b * heads + h, i, begin, threshold_of(dropout_p), BLOCK_M, BLOCK_N)
                    slopes = tl.where(keep, slopes / (1.0 - dropout_p), 0.0)
                sums += weights * (slopes - row_delta[:, None])

    dbias_at = dbias + own_entry.to(tl.int64) * dbias_batch + own_head.to(tl.int64) * dbias_head
    if dbias_row == 0:
        tl.store(dbias_at + j, tl.sum(sums, 0).to(dbias.dtype.element_ty), mask=j < keys_max)
    else:
        i = own_tile * BLOCK_M + tl.arange(0, BLOCK_M)
        tl.store(dbias_at + i.to(tl.int64)[:, None] * dbias_row + j[None, :], sums.to(dbias.dtype.element_ty),
                 mask=(i < queries_max)[:, None] & (j < keys_max)[None, :])
