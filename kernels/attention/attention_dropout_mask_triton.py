# SPDX-License-Identifier: MIT
"""What dropout multiplies attention weights with; see operators/attention_dropout_mask.hpp."""

import triton
import triton.language as tl
from attention_terms import kept, threshold_of


@triton.jit
def attention_dropout_mask(
    mask, dropout_state, queries, keys, dropout_p, given, dropout_seed, dropout_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """A tile of one head. `given`: seed and offset are at `dropout_state`."""
    tiles_n = tl.cdiv(keys, BLOCK_N)
    tiles_m = tl.cdiv(queries, BLOCK_M)
    at = tl.program_id(0)
    start = at % tiles_n * BLOCK_N
    i = at // tiles_n % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    head = at // tiles_n // tiles_m
    j = start + tl.arange(0, BLOCK_N)
    seed = dropout_seed
    offset = dropout_offset
    if given:
        seed = tl.load(dropout_state)
        offset = tl.load(dropout_state + 1)
    keep = kept(seed, offset, head, i, start, threshold_of(dropout_p), BLOCK_M, BLOCK_N)
    row = head.to(tl.int64) * queries + i
    tl.store(mask + row[:, None] * keys + j[None, :], tl.where(keep, 1.0 / (1.0 - dropout_p), 0.0),
             mask=(i < queries)[:, None] & (j < keys)[None, :])
