# SPDX-License-Identifier: MIT
"""Attention of a few queries against a cache, for every GPU, compiled ahead of time. The meaning of a call is that of
operators/attention_decode.hpp.

The query heads that share a KV head are rows of one tile, and the keys are split over `splits` blocks, whose
results attention_decode_combine joins (Flash-Decoding, Dao et al., 2023). One loop with every mask and term: what a
step computes is little beside what it reads. e4m3 is taken apart with integers, so that it means the OCP format on
every device; it becomes f16 exactly, and so do queries in bf16 once their row is divided by a power of two.
"""

import triton
import triton.language as tl
from attention_terms import LN2, LOG2E, tanh
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def widened(bits):
    """e4m3 in bytes as f16."""
    x = bits.to(tl.int16)
    size = x & 0x7F
    # In place, the number is 2^-8 of its value, subnormals included. The largest pattern is NaN.
    half = tl.where(size == 0x7F, 0x7E00, size << 7) | ((x & 0x80) << 8)
    return half.to(tl.int16).to(tl.float16, bitcast=True) * 256.0


@triton.jit
def rows_of_keys(j, table, there, page_size, stride_page, stride_token, PAGED: tl.constexpr):
    if PAGED:
        page = tl.load(table + j // page_size, mask=there, other=0).to(tl.int64)
        return page * stride_page + (j % page_size).to(tl.int64) * stride_token
    return j.to(tl.int64) * stride_token


@triton.jit
def attention_decode(
    q, k, v, out, lse, k_scale, v_scale, alibi_slopes, sinks, seqused_k, block_table, partial, partial_lse,
    batch, heads, heads_kv, queries, keys_max, head_dim, head_dim_v, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # strides over UNIT
    out_batch, out_head, out_token, lse_batch, lse_head, k_scale_stride, v_scale_stride,
    scale, soft_cap, left, right, has, splits,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr, KV_UNIT: tl.constexpr,
    PAGED: tl.constexpr, NARROW: tl.constexpr, OVERLAP: tl.constexpr,
):
    """`left` and `right` are -1 for no window; `has` has a bit for each pointer that is given, from the lowest:
    k_scale, v_scale, alibi_slopes, sinks, seqused_k, lse. UNIT divides the strides of q and out and the head dims,
    KV_UNIT the strides of k and v. With more than one split, results are f32 in `partial`, [splits, batch, heads,
    queries, head_dim_v], with their base-2 LSE in `partial_lse`. OVERLAP: the combining launch is a programmatic
    dependent, and may be resident before this ends."""
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
    columns = tl.arange(0, BLOCK_N)
    k_dims = (dims < head_dim)[None, :]
    v_dims = (dims < head_dim_v)[None, :]
    q_rows = (b * q_batch + h.to(tl.int64) * q_head + rows.to(tl.int64) * q_token) * UNIT
    q_tile = tl.load(q + q_rows[:, None] + dims[None, :], mask=live[:, None] & k_dims, other=0.0)
    factor = tl.full([BLOCK_M], 1.0, tl.float32) * scale
    if has & 1:
        factor = factor * tl.load(k_scale + h_kv * k_scale_stride)
    if NARROW and q_tile.dtype == tl.bfloat16:
        wide = q_tile.to(tl.float32)
        exponent = tl.max(tl.abs(wide), 1).to(tl.int32, bitcast=True) >> 23
        exponent = tl.minimum(tl.maximum(exponent, 1), 253)  # the inverse is to be a float as well
        factor = factor * (exponent << 23).to(tl.float32, bitcast=True)
        q_tile = (wide * ((254 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]).to(tl.float16)
    k_at = k + h_kv.to(tl.int64) * k_head * KV_UNIT
    v_at = v + h_kv.to(tl.int64) * v_head * KV_UNIT
    table = block_table
    if PAGED:
        table += b * block_table_stride
    else:
        k_at += b * k_batch * KV_UNIT
        v_at += b * v_batch * KV_UNIT

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
        v_rows = rows_of_keys(j, table, there, page_size, v_batch * KV_UNIT, v_token * KV_UNIT, PAGED)
        k_tile = tl.load(k_at + k_rows[:, None] + dims[None, :], mask=there[:, None] & k_dims, other=0)
        if NARROW:
            k_tile = widened(k_tile)
        scores = tl.dot(q_tile, k_tile.T, input_precision="ieee") * factor[:, None]
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
        v_tile = tl.load(v_at + v_rows[:, None] + dims[None, :], mask=there[:, None] & v_dims, other=0)
        if NARROW:
            v_tile = widened(v_tile)
        acc = tl.dot(weights.to(v_tile.dtype), v_tile, acc * rescale[:, None], input_precision="ieee")
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


@triton.jit
def attention_decode_combine(
    partial, partial_lse, out, lse, sinks,
    batch, heads, queries, head_dim_v, out_batch, out_head, out_token, lse_batch, lse_head, has, splits,
    BLOCK_D: tl.constexpr, UNIT: tl.constexpr, OVERLAP: tl.constexpr,
):
    """One row of the output from what attention_decode made of it."""
    i = tl.program_id(0) % queries
    h = tl.program_id(0) // queries % heads
    b = (tl.program_id(0) // queries // heads).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    head_dim_v = head_dim_v * UNIT
    row = (b * heads + h) * queries + i
    step = batch.to(tl.int64) * heads * queries
    largest = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    if OVERLAP:
        gdc_wait()
    if has & 8:
        largest = tl.load(sinks + h) * LOG2E
        total = tl.where(largest == float("-inf"), 0.0, 1.0)
    acc = tl.zeros([BLOCK_D], tl.float32)
    for first in tl.range(0, splits, 8):
        s = first + tl.arange(0, 8)
        there = s < splits
        each = tl.load(partial_lse + row + s * step, mask=there, other=float("-inf"))
        there = there & (each != float("-inf"))  # a NaN is to go on
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
    out_at = out + (b * out_batch + h.to(tl.int64) * out_head + i.to(tl.int64) * out_token) * UNIT
    tl.store(out_at + dims, acc.to(out.dtype.element_ty), mask=dims < head_dim_v)
    if has & 32:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        tl.store(lse + b * lse_batch + h.to(tl.int64) * lse_head + i, value)
