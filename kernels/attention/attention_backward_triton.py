"""Attention backward for every GPU, compiled ahead of time. The meaning of a call is that of
operators/attention_backward.hpp.

Three launches: the row sums of dout * out, then dk and dv (a block of keys meets all queries that see it), then dq (a
block of queries meets its keys). Seven matrix products instead of five, but nothing is added up through memory, so
that results are the same in every run. After Dao, FlashAttention-2 (arXiv:2307.08691).
"""

import triton
import triton.language as tl

from attention_triton import LOG2E, kept, tanh


@triton.jit
def weights_of(
    scores, j, i, keys, queries, diagonal, left, right, scale, lse,  # j, i, lse shaped to broadcast
    soft_cap, bias, bias_row, has_bias, slope, has_alibi,
    MASKED: tl.constexpr, TERMS: tl.constexpr,
):
    """The softmax's weights of a tile of products, and by how much the cap flattens them."""
    flat = scores
    if TERMS:
        scores = scores * scale
        if soft_cap != 0.0:
            bent = tanh(scores / soft_cap)
            flat = 1.0 - bent * bent
            scores = soft_cap * bent
        else:
            flat = tl.full(scores.shape, 1.0, tl.float32)
        if has_bias:
            added = tl.load(bias + i.to(tl.int64) * bias_row + j, mask=(i < queries) & (j < keys), other=0.0)
            scores += added.to(tl.float32)
        if has_alibi:
            scores -= slope * tl.abs(i + (keys - queries) - j).to(tl.float32)
        scores = scores * LOG2E
    else:
        scores = scores * scale
    weights = tl.exp2(scores - lse)
    if MASKED:
        seen = (j < keys) & (i < queries) & (j <= i + diagonal + right) & (j >= i + diagonal - left)
        weights = tl.where(seen, weights, 0.0)
    return weights, flat


@triton.jit
def place_sequence(b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries, keys):
    """Lengths, first tokens, and what the batch strides count, of a batch entry."""
    first_query = tl.zeros([], tl.int64)
    first_key = tl.zeros([], tl.int64)
    entry = b.to(tl.int64)
    entry_k = b.to(tl.int64)
    if has & 8:
        first_query = tl.load(cu_seqlens_q + b).to(tl.int64)
        queries = (tl.load(cu_seqlens_q + b + 1) - first_query).to(tl.int32)
        entry = tl.zeros([], tl.int64)
    if has & 16:
        first_key = tl.load(cu_seqlens_k + b).to(tl.int64)
        keys = (tl.load(cu_seqlens_k + b + 1) - first_key).to(tl.int32)
        entry_k = tl.zeros([], tl.int64)
    if has & 32:
        queries = tl.load(seqused_q + b)
    if has & 64:
        keys = tl.load(seqused_k + b)
    return queries, keys, first_query, first_key, entry, entry_k


@triton.jit
def attention_backward_sums(
    out, dout, lse, delta, scaled_lse, cu_seqlens_q, seqused_q,
    heads, queries_max, head_dim_v, out_batch, out_head, out_token, dout_batch, dout_head, dout_token,
    lse_batch, lse_head, has,
    BLOCK_M: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
):
    """delta = sum of dout * out, and the LSE in base 2 (infinite, so that weights are 0, for rows without keys); both
    [batch, heads, seqlen_q]."""
    tiles = tl.cdiv(queries_max, BLOCK_M)
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
    value = tl.where(value == float("-inf"), float("inf"), value * LOG2E)
    row = (b * heads + h).to(tl.int64) * queries_max + i
    tl.store(delta + row, tl.sum(o * do, 1), mask=i < queries_max)
    tl.store(scaled_lse + row, value, mask=i < queries_max)


@triton.jit
def take_queries(
    dk, dv, k, v, q, dout, lse, delta, first, last,
    j, queries, keys, diagonal, left, right, scale, q_token, dout_token, head_dim, head_dim_v,
    soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, head,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    for start in tl.range(first, last, BLOCK_M):
        start = tl.multiple_of(start, BLOCK_M)
        i = start + tl.arange(0, BLOCK_M)
        q_mask = (dims < head_dim)[None, :]
        dout_mask = (dims_v < head_dim_v)[None, :]
        if MASKED:
            q_mask = q_mask & (i < queries)[:, None]
            dout_mask = dout_mask & (i < queries)[:, None]
        q_tile = tl.load(q + (i.to(tl.int64) * q_token)[:, None] + dims[None, :], mask=q_mask, other=0.0)
        scores = tl.dot(k, q_tile.T, input_precision=PRECISION)
        row_lse = tl.load(lse + i, mask=i < queries, other=float("inf"))
        row_delta = tl.load(delta + i, mask=i < queries, other=0.0)
        weights, flat = weights_of(scores, j[:, None], i[None, :], keys, queries, diagonal, left, right, scale,
                                   row_lse[None, :], soft_cap, bias, bias_row, has_bias, slope, has_alibi, MASKED,
                                   TERMS)
        dout_tile = tl.load(dout + (i.to(tl.int64) * dout_token)[:, None] + dims_v[None, :], mask=dout_mask, other=0.0)
        slopes = tl.dot(v, dout_tile.T, input_precision=PRECISION)
        dropped = weights
        if TERMS:
            if dropout_p != 0.0:
                threshold = (dropout_p * 4294967296.0).to(tl.uint32)
                # Random words lie along keys, so the mask is made for [queries, keys].
                keep = tl.trans(kept(seed, offset, head, i, tl.min(j, 0), threshold, BLOCK_M, BLOCK_N).to(tl.int8)) != 0
                dropped = tl.where(keep, weights / (1.0 - dropout_p), 0.0)
                slopes = tl.where(keep, slopes / (1.0 - dropout_p), 0.0)
        dv = tl.dot(dropped.to(dout_tile.dtype), dout_tile, dv, input_precision=PRECISION)
        slopes = weights * (slopes - row_delta[None, :])
        if TERMS:
            slopes = slopes * flat
        dk = tl.dot(slopes.to(q_tile.dtype), q_tile, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def attention_backward_keys(
    q, k, v, dout, dk, dv, delta, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
    dropout_state,
    heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dk_batch, dk_head, dk_token, dv_batch, dv_head, dv_token, bias_batch, bias_head, bias_row,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    """dk and dv of a block of keys. `has`, `left`, `right`, UNIT and TERMS as in attention_forward."""
    tiles = tl.cdiv(keys_max, BLOCK_N)
    tile = tl.program_id(0) % tiles
    h_kv = tl.program_id(0) // tiles % heads_kv
    b = tl.program_id(0) // tiles // heads_kv
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
        q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + first_query * q_token) * UNIT
        dout_at = dout + (entry * dout_batch + h.to(tl.int64) * dout_head + first_query * dout_token) * UNIT
        row = (b * heads + h).to(tl.int64) * queries_max
        bias_at = bias
        if TERMS:
            bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
            slope = tl.load(alibi_slopes + h, mask=(has & 2) != 0, other=0.0)
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q_at, dout_at, lse + row, delta + row, lo, hi, j, queries, keys,
                diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim, head_dim_v, soft_cap,
                bias_at, bias_row, (has & 1) != 0, slope, (has & 2) != 0, dropout_p, seed, offset, b * heads + h,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)
        else:
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q_at, dout_at, lse + row, delta + row, lo,
                tl.minimum(full_begin, hi), j, queries, keys, diagonal, left, right, factor, q_token * UNIT,
                dout_token * UNIT, head_dim, head_dim_v, soft_cap, bias_at, bias_row, False, slope, False, dropout_p,
                seed, offset, b * heads + h, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q_at, dout_at, lse + row, delta + row, full_begin, full_end, j,
                queries, keys, diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim, head_dim_v,
                soft_cap, bias_at, bias_row, False, slope, False, dropout_p, seed, offset, b * heads + h,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, TERMS, PRECISION)
            dk_tile, dv_tile = take_queries(
                dk_tile, dv_tile, k_tile, v_tile, q_at, dout_at, lse + row, delta + row, full_end, hi, j, queries,
                keys, diagonal, left, right, factor, q_token * UNIT, dout_token * UNIT, head_dim, head_dim_v, soft_cap,
                bias_at, bias_row, False, slope, False, dropout_p, seed, offset, b * heads + h,
                BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)

    tl.store(dk + ((entry_k * dk_batch + h_kv.to(tl.int64) * dk_head + token * dk_token) * UNIT)[:, None] +
             dims[None, :], (dk_tile * scale).to(dk.dtype.element_ty), mask=mask)
    tl.store(dv + ((entry_k * dv_batch + h_kv.to(tl.int64) * dv_head + token * dv_token) * UNIT)[:, None] +
             dims_v[None, :], dv_tile.to(dv.dtype.element_ty), mask=mask_v)


@triton.jit
def take_keys_for_dq(
    dq, q, dout, k, v, lse, delta, first, last,
    i, queries, keys, diagonal, left, right, scale, k_token, v_token, head_dim, head_dim_v,
    soft_cap, bias, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, head,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    MASKED: tl.constexpr, TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    for start in tl.range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        j = start + tl.arange(0, BLOCK_N)
        k_mask = (dims < head_dim)[None, :]
        v_mask = (dims_v < head_dim_v)[None, :]
        if MASKED:
            k_mask = k_mask & (j < keys)[:, None]
            v_mask = v_mask & (j < keys)[:, None]
        k_tile = tl.load(k + (j.to(tl.int64) * k_token)[:, None] + dims[None, :], mask=k_mask, other=0.0)
        v_tile = tl.load(v + (j.to(tl.int64) * v_token)[:, None] + dims_v[None, :], mask=v_mask, other=0.0)
        scores = tl.dot(q, k_tile.T, input_precision=PRECISION)
        weights, flat = weights_of(scores, j[None, :], i[:, None], keys, queries, diagonal, left, right, scale,
                                   lse[:, None], soft_cap, bias, bias_row, has_bias, slope, has_alibi, MASKED, TERMS)
        slopes = tl.dot(dout, v_tile.T, input_precision=PRECISION)
        if TERMS:
            if dropout_p != 0.0:
                threshold = (dropout_p * 4294967296.0).to(tl.uint32)
                keep = kept(seed, offset, head, i, start, threshold, BLOCK_M, BLOCK_N)
                slopes = tl.where(keep, slopes / (1.0 - dropout_p), 0.0)
        slopes = weights * (slopes - delta[:, None])
        if TERMS:
            slopes = slopes * flat
        dq = tl.dot(slopes.to(k_tile.dtype), k_tile, dq, input_precision=PRECISION)
    return dq


@triton.jit
def attention_backward_queries(
    q, k, v, dout, dq, delta, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, dropout_state,
    heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dq_batch, dq_head, dq_token, bias_batch, bias_head, bias_row,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    TERMS: tl.constexpr, PRECISION: tl.constexpr,
):
    """dq of a block of queries. `has`, `left`, `right`, UNIT and TERMS as in attention_forward."""
    tiles = tl.cdiv(queries_max, BLOCK_M)
    tile = tiles - 1 - tl.program_id(0) % tiles
    h = tl.program_id(0) // tiles % heads
    b = tl.program_id(0) // tiles // heads
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
    row = (b * heads + h).to(tl.int64) * queries_max + i
    row_lse = tl.load(lse + row, mask=i < queries, other=float("inf"))
    row_delta = tl.load(delta + row, mask=i < queries, other=0.0)
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
            dq_tile, q_tile, dout_tile, k_at, v_at, row_lse, row_delta, lo, hi, i, queries, keys, diagonal, left,
            right, scale, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias_at, bias_row,
            (has & 1) != 0, slope, (has & 2) != 0, dropout_p, seed, offset, b * heads + h,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)
    else:
        factor = scale * LOG2E
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k_at, v_at, row_lse, row_delta, lo, tl.minimum(full_begin, hi), i, queries,
            keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias,
            bias_row, False, 0.0, False, dropout_p, 0, 0, 0,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k_at, v_at, row_lse, row_delta, full_begin, full_end, i, queries,
            keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias,
            bias_row, False, 0.0, False, dropout_p, 0, 0, 0,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, TERMS, PRECISION)
        dq_tile = take_keys_for_dq(
            dq_tile, q_tile, dout_tile, k_at, v_at, row_lse, row_delta, full_end, hi, i, queries,
            keys, diagonal, left, right, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, soft_cap, bias,
            bias_row, False, 0.0, False, dropout_p, 0, 0, 0,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, TERMS, PRECISION)

    tl.store(dq + ((entry * dq_batch + h.to(tl.int64) * dq_head + token * dq_token) * UNIT)[:, None] + dims[None, :],
             (dq_tile * scale).to(dq.dtype.element_ty), mask=mask)
