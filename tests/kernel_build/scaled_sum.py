# SPDX-License-Identifier: MIT
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, y, n, a, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(y + index, tl.load(y + index, mask=inside) + a * tl.load(x + index, mask=inside), mask=inside)
