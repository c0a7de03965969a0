// SPDX-License-Identifier: MIT
// What the warps of hopper_latent that copy keys do beside it.
#pragma once

#include "hopper_latent_deal.hpp"

namespace hopper {

namespace latent {

/// Tells latent_join of a sequence that this block shares with others. All threads of a warp call this.
__device__ __forceinline__ void plan_join(const deal& dealt, const share& work) {
  const i32 begin = dealt.first_of(static_cast<i32>(blockIdx.x)) + work.done - work.begin;  // of the sequence
  const i32 from = dealt.block_of(begin);
  const i32 to = dealt.block_of(begin + dealt.pairs_of(work.b) - 1);
  if (dealt.lane != 0) return;
  dealt.c.plan[2 * blockIdx.x + (work.done != 0 ? 1 : 0)] =
      make_int4(work.b, from, to, dealt.first_of(from) < begin ? 1 : 0);
}

/// Writes what sequences without keys give, those of this block.
template <class T>
__device__ __forceinline__ void clear_empty(const deal& dealt) {
  const call& c = dealt.c;
  const i32 first = static_cast<i32>(blockIdx.y) * rows;
  const i32 live = min(c.seqlen_q * c.heads - first, rows);
  for (i32 b = static_cast<i32>(blockIdx.x); b < c.batch; b += c.blocks) {
    if (dealt.pairs_of(b) > 0) continue;
    for (i32 row = first; row < first + live; ++row) {
      const i32 query = row / c.heads;
      const i32 head = row - query * c.heads;
      T* const to = static_cast<T*>(c.out) + b * c.out_stride_batch + head * c.out_stride_head +
                    query * c.out_stride_token;
      for (i32 at = dealt.lane * 8; at < columns; at += 32 * 8)
        *reinterpret_cast<uint4*>(to + at) = make_uint4(0, 0, 0, 0);
      if (c.lse != nullptr && dealt.lane == 0)
        c.lse[b * c.lse_stride_batch + head * c.lse_stride_head + query] = -infinity;
    }
  }
}

}  // namespace latent

}  // namespace hopper
