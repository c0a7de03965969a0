# SPDX-License-Identifier: MIT
"""Decoding where the values are the first columns of the keys (multi-head latent attention), for every GPU, compiled
ahead of time. The meaning of a call is that of operators/attention_decode.hpp.

As attention_decode_triton.py, whose combining kernel joins the parts: but a key is read once, as BLOCK_D columns that
are its value too and BLOCK_R more, the rotary part.
"""

import triton
import triton.language as tl
from attention_decode_triton import rows_of_keys, widened
from attention_terms import LN2, LOG2E, tanh
from triton.language.extra.cuda import gdc_launch_dependents


@triton.jit
def largest_exponent(tile):
    return tl.max(tl.abs(tile.to(tl.float32)), 1).to(tl.int32, bitcast=True) >> 23


@triton.jit
def attention_latent(
    q, k, out, lse, k_scale, v_scale, alibi_slopes, sinks, seqused_k, block_table, partial, partial_lse,
    batch, heads, heads_kv, queries, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token,  # strides over UNIT
    out_batch, out_head, out_token, lse_batch, lse_head, k_scale_stride, v_scale_stride,
    scale, soft_cap, left, right, has, splits,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_R: tl.constexpr,
    UNIT: tl.constexpr, KV_UNIT: tl.constexpr, PAGED: tl.constexpr, NARROW: tl.constexpr, OVERLAP: tl.constexpr,
):
    """Parameters as those of attention_decode; the grid as well."""
    if OVERLAP:
        gdc_launch_dependents()
    split = tl.program_id(0) % splits
    item = tl.program_id(0) // splits
    tile = tl.program_id(1)
    h_kv = item % heads_kv
    b = (item // heads_kv).to(tl.int64)
    keys = keys_max
    if has & 16:
        keys = tl.load(seqused_k + b)
    share = heads // heads_kv
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    at = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = at // share
    h = h_kv * share + at % share
    live = rows < queries
    dims = tl.arange(0, BLOCK_D)
    rest = head_dim_v + tl.arange(0, BLOCK_R)
    columns = tl.arange(0, BLOCK_N)
    v_dims = (dims < head_dim_v)[None, :]
    rest_dims = (rest < head_dim)[None, :]
    q_rows = (b * q_batch + h.to(tl.int64) * q_head + rows.to(tl.int64) * q_token) * UNIT
    q_tile = tl.load(q + q_rows[:, None] + dims[None, :], mask=live[:, None] & v_dims, other=0.0)
    q_rest = tl.load(q + q_rows[:, None] + rest[None, :], mask=live[:, None] & rest_dims, other=0.0)
    factor = tl.full([BLOCK_M], 1.0, tl.float32) * scale
    if has & 1:
        factor = factor * tl.load(k_scale + h_kv * k_scale_stride)
    if NARROW and q_tile.dtype == tl.bfloat16:
        exponent = tl.maximum(largest_exponent(q_tile), largest_exponent(q_rest))
        exponent = tl.minimum(tl.maximum(exponent, 1), 253)  # the inverse is to be a float as well
        factor = factor * (exponent << 23).to(tl.float32, bitcast=True)
        inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]
        q_tile = (q_tile.to(tl.float32) * inverse).to(tl.float16)
        q_rest = (q_rest.to(tl.float32) * inverse).to(tl.float16)
    k_at = k + h_kv.to(tl.int64) * k_head * KV_UNIT
    table = block_table
    if PAGED:
        table += b * block_table_stride
    else:
        k_at += b * k_batch * KV_UNIT

    diagonal = keys - queries
    right = tl.where(right < 0, 1 << 29, right)
    left = tl.where(left < 0, 1 << 30, left)
    first = tile * BLOCK_M // share
    last = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // share, queries - 1)
    hi = tl.maximum(tl.minimum(keys, last + diagonal + right + 1), 0)
    lo = tl.minimum(tl.maximum(first + diagonal - left, 0), hi) // BLOCK_N * BLOCK_N
    part = tl.cdiv(tl.cdiv(hi - lo, BLOCK_N), splits) * BLOCK_N
    lo = lo + split * part
    hi = tl.minimum(hi, lo + part)

    slope = tl.zeros([BLOCK_M], tl.float32)
    if has & 4:
        slope = tl.load(alibi_slopes + h, mask=live, other=0.0)
    d = rows + diagonal
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    for start in tl.range(lo, hi, BLOCK_N):
        j = start + columns
        there = j < hi
        k_rows = rows_of_keys(j, table, there, page_size, k_batch * KV_UNIT, k_token * KV_UNIT, PAGED)
        k_tile = tl.load(k_at + k_rows[:, None] + dims[None, :], mask=there[:, None] & v_dims, other=0)
        k_rest = tl.load(k_at + k_rows[:, None] + rest[None, :], mask=there[:, None] & rest_dims, other=0)
        if NARROW:
            k_tile = widened(k_tile)
            k_rest = widened(k_rest)
        scores = tl.dot(q_rest, k_rest.T, input_precision="ieee")
        scores = tl.dot(q_tile, k_tile.T, scores, input_precision="ieee") * factor[:, None]
        if soft_cap != 0.0:
            scores = soft_cap * tanh(scores / soft_cap)
        if has & 4:
            scores -= slope[:, None] * tl.abs(d[:, None] - j[None, :]).to(tl.float32)
        scores = scores * LOG2E
        seen = there[None, :] & (j[None, :] <= d[:, None] + right) & (j[None, :] >= d[:, None] - left)
        scores = tl.where(seen, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(now == float("-inf"), 0.0, now)
        weights = tl.exp2(scores - shift[:, None])
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.sum(weights, 1)
        acc = tl.dot(weights.to(k_tile.dtype), k_tile, acc * rescale[:, None], input_precision="ieee")
        largest = now

    if has & 2:
        acc = acc * tl.load(v_scale + h_kv * v_scale_stride)
    if splits == 1:
        if has & 8:
            sink = tl.load(sinks + h, mask=live, other=0.0) * LOG2E
            now = tl.maximum(largest, sink)
            shift = tl.where(now == float("-inf"), 0.0, now)
            rescale = tl.exp2(largest - shift)
            total = total * rescale + tl.exp2(sink - shift)
            acc = acc * rescale[:, None]
            largest = now
    empty = total == 0.0
    acc = acc * tl.where(empty, 0.0, 1.0 / total)[:, None]
    value = tl.where(empty, float("-inf"), largest + tl.log2(total))
    stored = live[:, None] & v_dims
    if splits > 1:
        row = ((split * batch + b) * heads + h) * queries + rows
        tl.store(partial_lse + row, value, mask=live)
        tl.store(partial + row[:, None] * head_dim_v + dims[None, :], acc, mask=stored)
    else:
        out_rows = (b * out_batch + h.to(tl.int64) * out_head + rows.to(tl.int64) * out_token) * UNIT
        tl.store(out + out_rows[:, None] + dims[None, :], acc.to(out.dtype.element_ty), mask=stored)
        if has & 32:
            tl.store(lse + b * lse_batch + h.to(tl.int64) * lse_head + rows, value * LN2, mask=live)
