// SPDX-License-Identifier: MIT
// Weights in shared memory as operands of tensor cores, in every format.
#pragma once

#include "weight_fragments_256.hpp"
#include "weight_fragments_32.hpp"

namespace sy::stream {

/// Weights of the same type as x, which stays as it is.
template <class Number, int Tiles>
struct plain_block {
  static constexpr int inputs = 32;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    uint4 w[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) w[o] = *reinterpret_cast<const uint4*>(from.w[o] + 2 * first + 16 * from.t);
    const u32 low[4]{w[0].x, w[1].x, w[0].y, w[1].y};
    const u32 high[4]{w[0].z, w[1].z, w[0].w, w[1].w};
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      const uint4 x = from.unit(n, first / 32);
      ptx::multiply<Number>(total[n], low, x.x, x.y);
      ptx::multiply<Number>(total[n], high, x.z, x.w);
    }
  }
};
template <int Tiles>
struct block<format::f16, Tiles> : plain_block<f16, Tiles> {};
template <int Tiles>
struct block<format::bf16, Tiles> : plain_block<bf16, Tiles> {};

}  // namespace sy::stream
