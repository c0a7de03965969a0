# SPDX-License-Identifier: MIT
"""Decoding against a latent cache in e4m3 whose rotary columns lie apart, for every GPU, compiled ahead of time. The
meaning of a call is that of operators/attention_latent.hpp.

As attention_latent_triton.py. A key's 128 columns with one scale are multiplied as they are, in the queries' type, which
holds e4m3 exactly: the scale multiplies a score's part, and the weights before they meet the values. In f16 those are
divided by the largest scale of the tile's keys, so that they are as far from f16's ends as weights are.
"""

import triton
import triton.language as tl
from attention_decode_triton import widened
from attention_terms import LN2, LOG2E, tanh
from triton.language.extra.cuda import gdc_launch_dependents


@triton.jit
def queries_of(rows, first, columns, live):
    dims = first + tl.arange(0, 128)
    return tl.load(rows + dims[None, :], mask=live[:, None] & (dims < columns)[None, :], other=0.0)


@triton.jit
def group_of(source, rows, first, columns, there, TYPE: tl.constexpr):
    """128 columns of a tile of keys, from `first` on; 0 behind the last column."""
    dims = first + tl.arange(0, 128)
    bits = tl.load(source + rows[:, None] + dims[None, :], mask=there[:, None] & (dims < columns)[None, :], other=0)
    half = widened(bits)
    if TYPE == tl.bfloat16:  # whose bits are the upper ones of a float's, exactly
        half = (half.to(tl.float32).to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    return half


@triton.jit
def scaled(acc, weights, scales, keys, rescale):
    """acc * rescale + (weights * scales) keys."""
    acc = acc * rescale[:, None]
    if keys.dtype == tl.bfloat16:
        acc = tl.dot((weights * scales[None, :]).to(tl.bfloat16), keys, acc, input_precision="ieee")
    else:
        largest = tl.max(tl.abs(scales), 0)
        largest = tl.where(largest > 0.0, largest, 1.0)
        share = (weights * (scales / largest)[None, :]).to(tl.float16)
        acc += tl.dot(share, keys, input_precision="ieee") * largest
    return acc


@triton.jit
def store_group(rows, values, first, columns, live):
    dims = first + tl.arange(0, 128)
    tl.store(rows + dims[None, :], values.to(rows.dtype.element_ty), mask=live[:, None] & (dims < columns)[None, :])


@triton.jit
def attention_latent_apart(
    q, k, k_rotary, k_scale, out, lse, alibi_slopes, sinks, seqused_k, block_table, partial, partial_lse,
    batch, heads, queries, keys_max, head_dim_v, rotary_dim, page_size, block_table_stride,
    q_batch, q_head, q_token, k_batch, k_token, rotary_batch, rotary_token,  # strides over UNIT and KV_UNIT
    scale_batch, scale_token, out_batch, out_head, out_token, lse_batch, lse_head,
    scale, soft_cap, left, right, has, splits,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr,
    UNIT: tl.constexpr, KV_UNIT: tl.constexpr, PAGED: tl.constexpr, OVERLAP: tl.constexpr,
):
    """Parameters as those of attention_decode, of one KV head; the grid as well. At most four groups of columns."""
    if OVERLAP:
        gdc_launch_dependents()
    split = tl.program_id(0) % splits
    b = (tl.program_id(0) // splits).to(tl.int64)
    tile = tl.program_id(1)
    keys = keys_max
    if has & 16:
        keys = tl.load(seqused_k + b)
    head_dim_v = head_dim_v * UNIT
    rotary_dim = rotary_dim * UNIT
    at = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = at // heads
    h = at % heads
    live = rows < queries
    rest = tl.arange(0, BLOCK_R)
    columns = tl.arange(0, BLOCK_N)
    q_at = q + ((b * q_batch + h.to(tl.int64) * q_head + rows.to(tl.int64) * q_token) * UNIT)[:, None]
    q_0 = queries_of(q_at, 0, head_dim_v, live)
    q_1 = queries_of(q_at, 128, head_dim_v, live)
    q_2 = queries_of(q_at, 256, head_dim_v, live)
    q_3 = queries_of(q_at, 384, head_dim_v, live)
    q_rest = tl.load(q_at + (head_dim_v + rest)[None, :], mask=live[:, None] & (rest < rotary_dim)[None, :], other=0.0)
    table = block_table
    if PAGED:
        table += b * block_table_stride

    diagonal = keys - queries
    right = tl.where(right < 0, 1 << 29, right)
    left = tl.where(left < 0, 1 << 30, left)
    first = tile * BLOCK_M // heads
    last = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // heads, queries - 1)
    hi = tl.maximum(tl.minimum(keys, last + diagonal + right + 1), 0)
    seen_from = tl.minimum(tl.maximum(first + diagonal - left, 0), hi)
    lo = seen_from // BLOCK_N * BLOCK_N
    part = tl.cdiv(tl.cdiv(hi - lo, BLOCK_N), splits) * BLOCK_N
    lo = lo + split * part
    hi = tl.minimum(hi, lo + part)

    slope = tl.zeros([BLOCK_M], tl.float32)
    if has & 4:
        slope = tl.load(alibi_slopes + h, mask=live, other=0.0)
    d = rows + diagonal
    acc_0 = tl.zeros([BLOCK_M, 128], tl.float32)
    acc_1 = tl.zeros([BLOCK_M, 128], tl.float32)
    acc_2 = tl.zeros([BLOCK_M, 128], tl.float32)
    acc_3 = tl.zeros([BLOCK_M, 128], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    for start in tl.range(lo, hi, BLOCK_N):
        j = start + columns
        there = (j >= seen_from) & (j < hi)  # other entries of the block table may be any number
        if PAGED:
            entry = tl.load(table + j // page_size, mask=there, other=0).to(tl.int64)
            token = (j % page_size).to(tl.int64)
        else:
            entry = tl.full([BLOCK_N], 0, tl.int64) + b
            token = j.to(tl.int64)
        k_rows = (entry * k_batch + token * k_token) * KV_UNIT
        rotary_rows = (entry * rotary_batch + token * rotary_token) * UNIT
        scales = k_scale + entry * scale_batch + token * scale_token
        scale_0 = tl.load(scales, mask=there, other=0.0)
        scale_1 = tl.load(scales + 1, mask=there & (head_dim_v > 128), other=0.0)
        scale_2 = tl.load(scales + 2, mask=there & (head_dim_v > 256), other=0.0)
        scale_3 = tl.load(scales + 3, mask=there & (head_dim_v > 384), other=0.0)
        k_rest = tl.load(k_rotary + rotary_rows[:, None] + rest[None, :],
                         mask=there[:, None] & (rest < rotary_dim)[None, :], other=0.0)
        k_0 = group_of(k, k_rows, 0, head_dim_v, there, q_0.dtype)
        k_1 = group_of(k, k_rows, 128, head_dim_v, there, q_0.dtype)
        k_2 = group_of(k, k_rows, 256, head_dim_v, there, q_0.dtype)
        k_3 = group_of(k, k_rows, 384, head_dim_v, there, q_0.dtype)
        scores = tl.dot(q_rest, k_rest.T, input_precision="ieee")
        scores += tl.dot(q_0, k_0.T, input_precision="ieee") * scale_0[None, :]
        scores += tl.dot(q_1, k_1.T, input_precision="ieee") * scale_1[None, :]
        scores += tl.dot(q_2, k_2.T, input_precision="ieee") * scale_2[None, :]
        scores += tl.dot(q_3, k_3.T, input_precision="ieee") * scale_3[None, :]
        scores = scores * scale
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
        acc_0 = scaled(acc_0, weights, scale_0, k_0, rescale)
        acc_1 = scaled(acc_1, weights, scale_1, k_1, rescale)
        acc_2 = scaled(acc_2, weights, scale_2, k_2, rescale)
        acc_3 = scaled(acc_3, weights, scale_3, k_3, rescale)
        largest = now

    factor = tl.full([BLOCK_M], 1.0, tl.float32)
    if splits == 1:
        if has & 8:
            sink = tl.load(sinks + h, mask=live, other=0.0) * LOG2E
            now = tl.maximum(largest, sink)
            shift = tl.where(now == float("-inf"), 0.0, now)
            factor = tl.exp2(largest - shift)
            total = total * factor + tl.exp2(sink - shift)
            largest = now
    empty = total == 0.0
    factor = (factor * tl.where(empty, 0.0, 1.0 / total))[:, None]
    value = tl.where(empty, float("-inf"), largest + tl.log2(total))
    if splits > 1:
        row = ((split * batch + b) * heads + h) * queries + rows
        tl.store(partial_lse + row, value, mask=live)
        part_rows = (partial + row * head_dim_v)[:, None]
        store_group(part_rows, acc_0 * factor, 0, head_dim_v, live)
        store_group(part_rows, acc_1 * factor, 128, head_dim_v, live)
        store_group(part_rows, acc_2 * factor, 256, head_dim_v, live)
        store_group(part_rows, acc_3 * factor, 384, head_dim_v, live)
    else:
        out_rows = (out + (b * out_batch + h.to(tl.int64) * out_head + rows.to(tl.int64) * out_token) * UNIT)[:, None]
        store_group(out_rows, acc_0 * factor, 0, head_dim_v, live)
        store_group(out_rows, acc_1 * factor, 128, head_dim_v, live)
        store_group(out_rows, acc_2 * factor, 256, head_dim_v, live)
        store_group(out_rows, acc_3 * factor, 384, head_dim_v, live)
        if has & 32:
            tl.store(lse + b * lse_batch + h.to(tl.int64) * lse_head + rows, value * LN2, mask=live)
