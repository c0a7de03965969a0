# SPDX-License-Identifier: MIT
"""What the attention kernels written in Triton share: which tokens a batch entry has, what is done to scores, and which
weights dropout keeps. Scores are kept in units of log2."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def tanh(x):
    size = tl.abs(x)
    far = 1.0 - 2.0 / (tl.exp2(size * (2.0 * LOG2E)) + 1.0)
    # Near zero the form above cancels, which a soft cap of 30 makes 3e-6 of a score; minimax polynomial of Cephes'
    # tanhf.
    z = x * x
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    return tl.where(size < 0.625, p * z * x + x, tl.where(x < 0.0, -far, far))


@triton.jit
def kept(seed, offset, head, row, first_key, threshold, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Which elements of a tile dropout keeps. `first_key` is a multiple of 4."""
    quads = (first_key // 4 + tl.arange(0, KEYS // 4))[None, :] + tl.zeros([ROWS, 1], tl.int32)
    rows = row[:, None] + tl.zeros([1, KEYS // 4], tl.int32)
    key = seed ^ ((offset >> 32) << 32)
    low = (offset & 0xFFFFFFFF).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox(key, quads.to(tl.uint32), rows.to(tl.uint32),
                               tl.zeros([ROWS, KEYS // 4], tl.uint32) + head.to(tl.uint32),
                               tl.zeros([ROWS, KEYS // 4], tl.uint32) + low)
    k0 = (w0 >= threshold).to(tl.int8)
    k1 = (w1 >= threshold).to(tl.int8)
    k2 = (w2 >= threshold).to(tl.int8)
    k3 = (w3 >= threshold).to(tl.int8)
    words = tl.join(tl.join(k0, k2), tl.join(k1, k3))  # the last index is the word's low bit
    return tl.reshape(words, [ROWS, KEYS]) != 0


@triton.jit
def threshold_of(dropout_p):
    """The smallest word that dropout keeps."""
    return (dropout_p * 4294967296.0).to(tl.uint32)


@triton.jit
def with_terms(products, i, j, queries, keys, scale, soft_cap, bias, bias_row, has_bias, slope, has_alibi,
               FLAT: tl.constexpr):
    """Scores of a tile of products: scaled, capped, with bias and ALiBi. With FLAT also by how much the cap flattens
    them. `i` and `j`, the queries and the keys, are shaped to broadcast."""
    scores = products * scale
    flat = scores
    if FLAT:
        flat = tl.full(scores.shape, 1.0, tl.float32)
    if soft_cap != 0.0:
        bent = tanh(scores / soft_cap)
        scores = soft_cap * bent
        if FLAT:
            flat = 1.0 - bent * bent
    if has_bias:
        added = tl.load(bias + i.to(tl.int64) * bias_row + j, mask=(i < queries) & (j < keys), other=0.0)
        scores += added.to(tl.float32)
    if has_alibi:
        scores -= slope * tl.abs(i + (keys - queries) - j).to(tl.float32)
    return scores * LOG2E, flat


@triton.jit
def seen_by(i, j, keys, diagonal, left, right):
    """Whether query i sees key j; both shaped to broadcast."""
    return (j < keys) & (j <= i + diagonal + right) & (j >= i + diagonal - left)


@triton.jit
def place_sequence(b, has, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, queries, keys):
    """Lengths, first tokens, and what the batch strides count, of a batch entry. `has` has a bit for each pointer that
    is given: 8 cu_seqlens_q, 16 cu_seqlens_k, 32 seqused_q, 64 seqused_k."""
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
