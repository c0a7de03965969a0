# SPDX-License-Identifier: MIT
"""Attention forward over queries, keys and values in e4m3 with scales, for every GPU, compiled ahead of time. The
meaning of a call is that of operators/attention_forward.hpp.

Everything becomes f16, which holds e4m3 exactly, as in attention_narrow_triton.py, whose loop over keys this is; the
scale of the queries joins that of the scores. Every tile is masked, and every term is possible: hopper_e4m3.cu is for
speed.
"""

import triton
import triton.language as tl
from attention_narrow_triton import take_keys, wide
from attention_terms import LN2, LOG2E, place_sequence
from attention_triton import place


@triton.jit
def attention_e4m3(
    q, k, v, out, lse, q_scale, k_scale, v_scale, bias, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q,
    seqused_k, block_table, dropout_state,
    batch, heads, heads_kv, queries_max, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # over KV_UNIT, as the head dims
    out_batch, out_head, out_token,  # over UNIT
    bias_batch, bias_head, bias_row, lse_batch, lse_head,
    scale, soft_cap, dropout_p, left, right, bottom_right, has, dropout_seed, dropout_offset, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    UNIT: tl.constexpr, KV_UNIT: tl.constexpr, PAGED: tl.constexpr, NATIVE: tl.constexpr,
):
    """`left`, `right` and `has` are those of attention_narrow; bit 2048 of `has` says that each head has its own
    q_scale, which may be null."""
    tile, h, b = place(heads, batch, queries_max, group, BLOCK_M)
    queries, keys, first_query, first_key, entry, entry_k = place_sequence(
        b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries_max, keys_max
    )
    begin = tile * BLOCK_M
    if begin >= queries:
        return
    head_dim = head_dim * KV_UNIT
    head_dim_v = head_dim_v * KV_UNIT
    rows = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)

    q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + (first_query + begin) * q_token) * KV_UNIT
    q_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (q_token * KV_UNIT)
    q_tile = wide(
        tl.load(q_at + q_rows[:, None] + dims[None, :], mask=(rows < queries)[:, None] & (dims < head_dim)[None, :], other=0),
        NATIVE,
    )
    scaled = scale
    if q_scale.to(tl.int64) != 0:
        scaled = scaled * tl.load(q_scale + h * ((has >> 11) & 1))
    if k_scale.to(tl.int64) != 0:
        scaled = scaled * tl.load(k_scale + h_kv * ((has >> 9) & 1))
    factor = tl.zeros([BLOCK_M], tl.float32) + scaled

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

    # The keys that the tile's rows see.
    diagonal = (keys - queries) * bottom_right
    end = tl.minimum(begin + BLOCK_M, queries)
    right = tl.where(right < 0, 1 << 30, right)
    left = tl.where(left < 0, 1 << 30, left)
    hi = tl.maximum(tl.minimum(keys, end + diagonal + right), 0)
    lo = tl.minimum(tl.maximum(begin + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N

    slope = 0.0
    seed = dropout_seed
    offset = dropout_offset
    if has & 2:
        slope = tl.load(alibi_slopes + h)
    if has & 128:
        seed = tl.load(dropout_state)
        offset = tl.load(dropout_state + 1)
    bias_at = bias + b.to(tl.int64) * bias_batch + h.to(tl.int64) * bias_head
    has_bias = (has & 1) != 0
    has_alibi = (has & 2) != 0
    item = b * heads + h
    acc, total, largest = take_keys(
        acc, total, largest, q_tile, k_at, v_at, lo, hi, rows, queries, keys, diagonal, left, right, factor,
        k_token, v_token, k_page, v_page, table, page_size, head_dim, head_dim_v,
        soft_cap, bias_at, bias_row, has_bias, slope, has_alibi, dropout_p, seed, offset, item,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, PAGED, NATIVE, True)

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
    acc = acc * tl.where(empty, 0.0, multiplier / (total * (1.0 - dropout_p)))[:, None]
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + (first_query + begin) * out_token) * UNIT
    out_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (out_token * UNIT)
    tl.store(
        out_at + out_rows[:, None] + dims_v[None, :],
        acc.to(out.dtype.element_ty),
        mask=(rows < queries)[:, None] & (dims_v < head_dim_v)[None, :],
    )
    if has & 256:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + first_query + rows, value, mask=rows < queries)
