# SPDX-License-Identifier: MIT
"""Attention under block masks, forward and backward, for every GPU, compiled ahead of time. The meaning of a call is
that of operators/attention_block_mask.hpp.

A block of threads owns a tile of queries, or of keys, that lies in one block of the mask, and goes through that block's
two lists: full blocks without a mask, then partial ones with their bits. Tiles divide 128, the unit of blocks. A list
is walked as one loop over tiles, so that loads of the next tile run ahead across blocks.

EVEN: tokens are whole tiles, which are loaded without masks. The last block may still have more tiles than there are
tokens: in place of such a tile the last one that there is is loaded, and its rows weigh nothing.
"""

import triton
import triton.language as tl
from attention_backward_triton import load_tile
from attention_terms import LN2, LOG2E
from attention_triton import place


@triton.jit
def entry_of(b, h, mask_batch, mask_heads):
    """Which of [mask_batch, mask_heads] is a head's."""
    return tl.where(mask_batch > 1, b, 0) * mask_heads + tl.where(mask_heads > 1, h, 0)


@triton.jit
def bits_by_query(bits, entry, row, key, block_q, words, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """What rows [row, row + ROWS) of a block see of its keys [key, key + KEYS), [ROWS, KEYS]."""
    rows = entry.to(tl.int64) * block_q + row + tl.arange(0, ROWS)
    word = tl.load(bits + rows[:, None] * words + (key // 32 + tl.arange(0, KEYS // 32))[None, :])
    seen = (word[:, :, None] >> tl.arange(0, 32)[None, None, :]) & 1
    return tl.reshape(seen, [ROWS, KEYS]) != 0


@triton.jit
def bits_by_key(bits, entry, row, key, block_q, words, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """The same, [KEYS, ROWS]."""
    rows = entry.to(tl.int64) * block_q + row + tl.arange(0, ROWS)
    word = tl.load(bits + rows[None, :] * words + (key // 32 + tl.arange(0, KEYS // 32))[:, None])
    seen = (word[:, None, :] >> tl.arange(0, 32)[None, :, None]) & 1
    return tl.reshape(seen, [KEYS, ROWS]) != 0


@triton.jit
def begin_list(indices, entries, count, PARTIAL: tl.constexpr):
    """The first block of a list, and which entry of bits it has."""
    block = tl.load(indices, mask=count > 0, other=0)
    entry = block
    if PARTIAL:
        entry = tl.load(entries, mask=count > 0, other=0)
    return block, entry


@triton.jit
def next_tile(indices, entries, count, at, inside, block, entry, size, STEP: tl.constexpr, PARTIAL: tl.constexpr):
    """The place in the list, the tile's first row in its block, the block and its entry, of the tile that follows. Loaded
    an iteration ahead: the pipeliner takes loads whose results lead to other loads of the same iteration for stages of
    their own, of which the tiles' loads would have fewer."""
    inside = inside + STEP
    is_next = inside == size  # which is whole tiles
    at = at + is_next.to(tl.int32)
    inside = tl.where(is_next, 0, inside)
    place = tl.minimum(at, count - 1)
    block = tl.load(indices + place)
    if PARTIAL:
        entry = tl.load(entries + place)
    return at, inside, block, entry


@triton.jit
def take_blocks(
    acc, total, largest, q, k, k_at, v, v_at, indices, entries, count, bits, row, keys, scale,
    k_token, v_token, head_dim, head_dim_v, at_batch, at_head, block_q, words,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    PARTIAL: tl.constexpr, SCALED: tl.constexpr, MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    """Takes in the `count` blocks of keys in a list. PARTIAL: with bits, those of `entries`. SCALED: scores are scaled
    before the largest is taken, which a scale that is not positive needs."""
    size = words * 32
    at = tl.full([], 0, tl.int32)
    inside = tl.full([], 0, tl.int32)
    block, entry = begin_list(indices, entries, count, PARTIAL)
    for _ in tl.range(0, count * (size // BLOCK_N)):
        key = inside
        of_block = entry
        start = block * size + key
        at, inside, block, entry = next_tile(indices, entries, count, at, inside, block, entry, size, BLOCK_N, PARTIAL)
        is_there = start < keys
        if EVEN:
            start = tl.minimum(start, keys - BLOCK_N)
        start = tl.multiple_of(start, BLOCK_N)
        k_tile = load_tile(k, k_at, at_batch, at_head, start, k_token, keys, head_dim, BLOCK_N, BLOCK_D, not EVEN,
                           MAPPED)
        scores = tl.dot(q, k_tile.T, input_precision=PRECISION)
        if SCALED:
            scores = scores * scale
        if PARTIAL:
            seen = bits_by_query(bits, of_block, row, key, block_q, words, BLOCK_M, BLOCK_N)
            scores = tl.where(seen, scores, float("-inf"))
        if not EVEN:
            j = start + tl.arange(0, BLOCK_N)
            scores = tl.where((j < keys)[None, :], scores, float("-inf"))
        if SCALED:
            top = tl.max(scores, 1)
        else:
            top = tl.max(scores, 1) * scale
        if EVEN:
            top = tl.where(is_there, top, float("-inf"))
        now = tl.maximum(largest, top)
        shift = tl.where(now == float("-inf"), 0.0, now)
        down = shift
        if EVEN:
            down = tl.where(is_there, shift, float("inf"))
        if SCALED:
            weights = tl.exp2(scores - down[:, None])
        else:  # scaling and subtracting are one operation, then
            weights = tl.exp2(scores * scale - down[:, None])
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.sum(weights, 1)
        acc = acc * rescale[:, None]
        v_tile = load_tile(v, v_at, at_batch, at_head, start, v_token, keys, head_dim_v, BLOCK_N, BLOCK_DV, not EVEN,
                           MAPPED)
        acc = tl.dot(weights.to(v_tile.dtype), v_tile, acc, input_precision=PRECISION)
        largest = now
    return acc, total, largest


@triton.jit
def attention_blocks(
    q, k, v, out, lse, sinks, kv_num_blocks, kv_indices, kv_bits, full_kv_num_blocks, full_kv_indices, mask_bits,
    batch, heads, heads_kv, queries, keys, head_dim, head_dim_v, mask_batch, mask_heads, block_q, words,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,  # strides over UNIT
    out_batch, out_head, out_token, lse_batch, lse_head, scale, has, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    UNIT: tl.constexpr, MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    """`has` has a bit for what is given: 1 full blocks, 4 sinks, 256 lse. UNIT divides strides and head dims. MAPPED: k
    and v are host tensor descriptors of [batch, heads_kv, seqlen_k, dim]. EVEN: keys are whole tiles."""
    tile, h, b = place(heads, batch, queries, group, BLOCK_M)
    begin = tile * BLOCK_M
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    rows = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)
    entry = b.to(tl.int64)

    q_at = q + (entry * q_batch + h.to(tl.int64) * q_head + begin.to(tl.int64) * q_token) * UNIT
    q_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (q_token * UNIT)
    q_tile = tl.load(q_at + q_rows[:, None] + dims[None, :],
                     mask=(rows < queries)[:, None] & (dims < head_dim)[None, :], other=0.0)
    k_at = k
    v_at = v
    if not MAPPED:
        k_at = k + (entry * k_batch + h_kv.to(tl.int64) * k_head) * UNIT
        v_at = v + (entry * v_batch + h_kv.to(tl.int64) * v_head) * UNIT
    factor = scale * LOG2E

    key_blocks = tl.cdiv(keys, words * 32)
    row = entry_of(b, h, mask_batch, mask_heads) * tl.cdiv(queries, block_q) + begin // block_q
    list_at = row.to(tl.int64) * key_blocks
    full = 0
    if has & 1:
        full = tl.load(full_kv_num_blocks + row)
    part = tl.load(kv_num_blocks + row)

    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    acc, total, largest = take_blocks(
        acc, total, largest, q_tile, k, k_at, v, v_at, full_kv_indices + list_at, kv_bits,
        tl.where(scale > 0.0, full, 0), mask_bits, begin % block_q, keys, factor, k_token * UNIT, v_token * UNIT,
        head_dim, head_dim_v, b, h_kv, block_q, words,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, False, MAPPED, EVEN, PRECISION)
    acc, total, largest = take_blocks(
        acc, total, largest, q_tile, k, k_at, v, v_at, full_kv_indices + list_at, kv_bits,
        tl.where(scale > 0.0, 0, full), mask_bits, begin % block_q, keys, factor, k_token * UNIT, v_token * UNIT,
        head_dim, head_dim_v, b, h_kv, block_q, words,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, True, MAPPED, EVEN, PRECISION)
    acc, total, largest = take_blocks(
        acc, total, largest, q_tile, k, k_at, v, v_at, kv_indices + list_at, kv_bits + list_at,
        part, mask_bits, begin % block_q, keys, factor, k_token * UNIT, v_token * UNIT,
        head_dim, head_dim_v, b, h_kv, block_q, words,
        BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, True, MAPPED, EVEN, PRECISION)

    if has & 4:  # joins last, as in attention_forward
        sink = tl.load(sinks + h) * LOG2E
        now = tl.maximum(largest, sink)
        shift = tl.where(now == float("-inf"), 0.0, now)
        rescale = tl.exp2(largest - shift)
        total = total * rescale + tl.exp2(sink - shift)
        acc = acc * rescale[:, None]
        largest = now
    empty = total == 0.0
    acc = acc * tl.where(empty, 0.0, 1.0 / total)[:, None]
    out_at = out + (entry * out_batch + h.to(tl.int64) * out_head + begin.to(tl.int64) * out_token) * UNIT
    out_rows = tl.arange(0, BLOCK_M).to(tl.int64) * (out_token * UNIT)
    tl.store(out_at + out_rows[:, None] + dims_v[None, :], acc.to(out.dtype.element_ty),
             mask=(rows < queries)[:, None] & (dims_v < head_dim_v)[None, :])
    if has & 256:
        value = tl.where(empty, float("-inf"), (largest + tl.log2(total)) * LN2)
        tl.store(lse + entry * lse_batch + h.to(tl.int64) * lse_head + rows, value, mask=rows < queries)


@triton.jit
def take_query_blocks(
    dk, dv, k, v, q, q_at, dout, dout_at, lse, delta, indices, entries, count, bits, key, queries, scale,
    q_token, dout_token, head_dim, head_dim_v, at_batch, at_head, block_q, words,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    PARTIAL: tl.constexpr, MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    """Takes in the `count` blocks of queries in a list, for keys that begin at `key` of their block."""
    at = tl.full([], 0, tl.int32)
    inside = tl.full([], 0, tl.int32)
    block, entry = begin_list(indices, entries, count, PARTIAL)
    for _ in tl.range(0, count * (block_q // BLOCK_M)):
        row = inside
        of_block = entry
        start = block * block_q + row
        at, inside, block, entry = next_tile(indices, entries, count, at, inside, block, entry, block_q, BLOCK_M, PARTIAL)
        is_there = start < queries
        if EVEN:
            start = tl.minimum(start, queries - BLOCK_M)
        start = tl.multiple_of(start, BLOCK_M)
        i = start + tl.arange(0, BLOCK_M)
        q_tile = load_tile(q, q_at, at_batch, at_head, start, q_token, queries, head_dim, BLOCK_M, BLOCK_D, not EVEN,
                           MAPPED)
        products = tl.dot(k, q_tile.T, input_precision=PRECISION)
        if EVEN:
            row_lse = tl.where(is_there, tl.load(lse + i), float("inf"))
            row_delta = tl.load(delta + i)
        else:  # rows that are not there have an infinite LSE, so that their weights are 0
            row_lse = tl.load(lse + i, mask=i < queries, other=float("inf"))
            row_delta = tl.load(delta + i, mask=i < queries, other=0.0)
        weights = tl.exp2(products * scale - row_lse[None, :])
        if PARTIAL:
            seen = bits_by_key(bits, of_block, row, key, block_q, words, BLOCK_M, BLOCK_N)
            weights = tl.where(seen, weights, 0.0)
        dout_tile = load_tile(dout, dout_at, at_batch, at_head, start, dout_token, queries, head_dim_v, BLOCK_M,
                              BLOCK_DV, not EVEN, MAPPED)
        ds = tl.dot(v, dout_tile.T, input_precision=PRECISION)
        dv = tl.dot(weights.to(dout_tile.dtype), dout_tile, dv, input_precision=PRECISION)
        ds = weights * (ds - row_delta[None, :])
        dk = tl.dot(ds.to(q_tile.dtype), q_tile, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def attention_blocks_keys(
    q, k, v, dout, dk, dv, delta, lse, q_num_blocks, q_indices, q_bits, full_q_num_blocks, full_q_indices, mask_bits,
    batch, heads, heads_kv, queries, keys, rows, head_dim, head_dim_v, mask_batch, mask_heads, block_q, words,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dk_batch, dk_head, dk_token, dv_batch, dv_head, dv_token, scale, has,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    """dk and dv of a tile of keys. `lse` and `delta` as attention_backward_sums leaves them. MAPPED: q and dout are host
    tensor descriptors of [batch, heads, seqlen_q, dim]. EVEN: queries are whole tiles. `has` 1: there are full blocks."""
    tiles = tl.cdiv(keys, BLOCK_N)
    tile = tl.program_id(0) % tiles
    h_kv = tl.program_id(0) // tiles % heads_kv
    b = tl.program_id(0) // tiles // heads_kv
    entry = b.to(tl.int64)
    begin = tile * BLOCK_N
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    j = begin + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    token = j.to(tl.int64)
    mask = (j < keys)[:, None] & (dims < head_dim)[None, :]
    mask_v = (j < keys)[:, None] & (dims_v < head_dim_v)[None, :]
    k_tile = tl.load(k + ((entry * k_batch + h_kv.to(tl.int64) * k_head + token * k_token) * UNIT)[:, None] +
                     dims[None, :], mask=mask, other=0.0)
    v_tile = tl.load(v + ((entry * v_batch + h_kv.to(tl.int64) * v_head + token * v_token) * UNIT)[:, None] +
                     dims_v[None, :], mask=mask_v, other=0.0)
    dk_tile = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv_tile = tl.zeros([BLOCK_N, BLOCK_DV], tl.float32)

    block_k = words * 32
    query_blocks = tl.cdiv(queries, block_q)
    share = heads // heads_kv
    factor = scale * LOG2E
    for member in tl.range(0, share, num_stages=1):
        h = h_kv * share + member
        q_at = q
        dout_at = dout
        if not MAPPED:
            q_at = q + (entry * q_batch + h.to(tl.int64) * q_head) * UNIT
            dout_at = dout + (entry * dout_batch + h.to(tl.int64) * dout_head) * UNIT
        at = (b * heads + h).to(tl.int64) * rows
        list_row = entry_of(b, h, mask_batch, mask_heads) * tl.cdiv(keys, block_k) + begin // block_k
        list_at = list_row.to(tl.int64) * query_blocks
        full = 0
        if has & 1:
            full = tl.load(full_q_num_blocks + list_row)
        part = tl.load(q_num_blocks + list_row)
        dk_tile, dv_tile = take_query_blocks(
            dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, lse + at, delta + at, full_q_indices + list_at,
            q_bits, full, mask_bits, begin % block_k, queries, factor, q_token * UNIT, dout_token * UNIT, head_dim,
            head_dim_v, b, h, block_q, words,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, MAPPED, EVEN, PRECISION)
        dk_tile, dv_tile = take_query_blocks(
            dk_tile, dv_tile, k_tile, v_tile, q, q_at, dout, dout_at, lse + at, delta + at, q_indices + list_at,
            q_bits + list_at, part, mask_bits, begin % block_k, queries, factor, q_token * UNIT, dout_token * UNIT,
            head_dim, head_dim_v, b, h, block_q, words,
            BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, EVEN, PRECISION)

    tl.store(dk + ((entry * dk_batch + h_kv.to(tl.int64) * dk_head + token * dk_token) * UNIT)[:, None] +
             dims[None, :], (dk_tile * scale).to(dk.dtype.element_ty), mask=mask)
    tl.store(dv + ((entry * dv_batch + h_kv.to(tl.int64) * dv_head + token * dv_token) * UNIT)[:, None] +
             dims_v[None, :], dv_tile.to(dv.dtype.element_ty), mask=mask_v)


@triton.jit
def take_key_blocks(
    dq, q, dout, k, k_at, v, v_at, lse, delta, indices, entries, count, bits, row, keys, scale,
    k_token, v_token, head_dim, head_dim_v, at_batch, at_head, block_q, words,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    PARTIAL: tl.constexpr, MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    size = words * 32
    at = tl.full([], 0, tl.int32)
    inside = tl.full([], 0, tl.int32)
    block, entry = begin_list(indices, entries, count, PARTIAL)
    for _ in tl.range(0, count * (size // BLOCK_N)):
        key = inside
        of_block = entry
        start = block * size + key
        at, inside, block, entry = next_tile(indices, entries, count, at, inside, block, entry, size, BLOCK_N, PARTIAL)
        is_there = start < keys
        if EVEN:
            start = tl.minimum(start, keys - BLOCK_N)
        start = tl.multiple_of(start, BLOCK_N)
        k_tile = load_tile(k, k_at, at_batch, at_head, start, k_token, keys, head_dim, BLOCK_N, BLOCK_D, not EVEN,
                           MAPPED)
        v_tile = load_tile(v, v_at, at_batch, at_head, start, v_token, keys, head_dim_v, BLOCK_N, BLOCK_DV, not EVEN,
                           MAPPED)
        row_lse = lse
        if EVEN:
            row_lse = tl.where(is_there, lse, float("inf"))
        weights = tl.exp2(tl.dot(q, k_tile.T, input_precision=PRECISION) * scale - row_lse[:, None])
        if PARTIAL:
            seen = bits_by_query(bits, of_block, row, key, block_q, words, BLOCK_M, BLOCK_N)
            weights = tl.where(seen, weights, 0.0)
        if not EVEN:
            j = start + tl.arange(0, BLOCK_N)
            weights = tl.where((j < keys)[None, :], weights, 0.0)
        ds = weights * (tl.dot(dout, v_tile.T, input_precision=PRECISION) - delta[:, None])
        dq = tl.dot(ds.to(k_tile.dtype), k_tile, dq, input_precision=PRECISION)
    return dq


@triton.jit
def attention_blocks_queries(
    q, k, v, dout, dq, delta, lse, kv_num_blocks, kv_indices, kv_bits, full_kv_num_blocks, full_kv_indices, mask_bits,
    batch, heads, heads_kv, queries, keys, rows, head_dim, head_dim_v, mask_batch, mask_heads, block_q, words,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, dout_batch, dout_head, dout_token,
    dq_batch, dq_head, dq_token, scale, has, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, UNIT: tl.constexpr,
    MAPPED: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):
    """dq of a tile of queries. MAPPED: k and v are host tensor descriptors of [batch, heads_kv, seqlen_k, dim]. EVEN:
    keys are whole tiles; the rest as in attention_blocks_keys."""
    tile, h, b = place(heads, batch, queries, group, BLOCK_M)
    entry = b.to(tl.int64)
    begin = tile * BLOCK_M
    head_dim = head_dim * UNIT
    head_dim_v = head_dim_v * UNIT
    i = begin + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    h_kv = h // (heads // heads_kv)
    token = i.to(tl.int64)
    mask = (i < queries)[:, None] & (dims < head_dim)[None, :]
    q_tile = tl.load(q + ((entry * q_batch + h.to(tl.int64) * q_head + token * q_token) * UNIT)[:, None] +
                     dims[None, :], mask=mask, other=0.0)
    dout_tile = tl.load(
        dout + ((entry * dout_batch + h.to(tl.int64) * dout_head + token * dout_token) * UNIT)[:, None] +
        dims_v[None, :], mask=(i < queries)[:, None] & (dims_v < head_dim_v)[None, :], other=0.0)
    at = (b * heads + h).to(tl.int64) * rows + i
    row_lse = tl.load(lse + at)
    row_delta = tl.load(delta + at)
    k_at = k
    v_at = v
    if not MAPPED:
        k_at = k + (entry * k_batch + h_kv.to(tl.int64) * k_head) * UNIT
        v_at = v + (entry * v_batch + h_kv.to(tl.int64) * v_head) * UNIT

    list_row = entry_of(b, h, mask_batch, mask_heads) * tl.cdiv(queries, block_q) + begin // block_q
    list_at = list_row.to(tl.int64) * tl.cdiv(keys, words * 32)
    full = 0
    if has & 1:
        full = tl.load(full_kv_num_blocks + list_row)
    part = tl.load(kv_num_blocks + list_row)
    factor = scale * LOG2E
    dq_tile = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    dq_tile = take_key_blocks(
        dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, full_kv_indices + list_at, kv_bits, full,
        mask_bits, begin % block_q, keys, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, b, h_kv,
        block_q, words, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, False, MAPPED, EVEN, PRECISION)
    dq_tile = take_key_blocks(
        dq_tile, q_tile, dout_tile, k, k_at, v, v_at, row_lse, row_delta, kv_indices + list_at, kv_bits + list_at,
        part, mask_bits, begin % block_q, keys, factor, k_token * UNIT, v_token * UNIT, head_dim, head_dim_v, b, h_kv,
        block_q, words, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV, True, MAPPED, EVEN, PRECISION)
    tl.store(dq + ((entry * dq_batch + h.to(tl.int64) * dq_head + token * dq_token) * UNIT)[:, None] + dims[None, :],
             (dq_tile * scale).to(dq.dtype.element_ty), mask=mask)
