// SPDX-License-Identifier: MIT
// Parts of the attention kernels for Hopper that forward and backward share.
#pragma once

#include "hopper_ptx.hpp"

namespace hopper {

inline constexpr float log2_e = 1.4426950408889634F;
inline constexpr float ln_2 = 0.6931471805599453F;
inline constexpr float infinity = __builtin_huge_valf();

/// A place in a ring of stages.
template <int Stages>
struct ring {
  int stage = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

__device__ __forceinline__ float tangent_hyperbolic(float x) {
  const float size = fabsf(x);
  const float far = 1.0F - __fdividef(2.0F, exp2_approximate(size * (2.0F * log2_e)) + 1.0F);
  // Near zero that cancels; minimax polynomial of Cephes' tanhf.
  const float z = x * x;
  float p = fmaf(-5.70498872745e-3F, z, 2.06390887954e-2F);
  p = fmaf(p, z, -5.37397155531e-2F);
  p = fmaf(p, z, 1.33314422036e-1F);
  p = fmaf(p, z, -3.33332819422e-1F);
  return size < 0.625F ? fmaf(p * z, x, x) : copysignf(far, x);
}

/// tanh(factor x) in place, of scores under a soft cap: one instruction of the exponential unit each, off by
/// up to 2^-11 of the result.
template <int Count>
__device__ __forceinline__ void bend(float (&x)[Count], float factor) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm("tanh.approx.f32 %0, %1;" : "=f"(x[i]) : "f"(x[i] * factor));
}

/// The lane, asked for anew, so that what follows from it is not kept in registers.
__device__ __forceinline__ u32 lane_now() {
  u32 lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// A value that all threads of the warp have; as the result of a reduction it lies in a uniform register.
__device__ __forceinline__ i32 uniform(i32 value) {
  return __reduce_max_sync(0xffffffff, value);
}

/// Of the 4 x 4 words of four neighbouring threads.
__device__ __forceinline__ void transpose_words(u32 (&word)[4], int quad) {
  const bool odd = quad & 1;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 other = __shfl_xor_sync(0xffffffff, odd ? word[i] : word[i + 1], 1);
    (odd ? word[i] : word[i + 1]) = other;
  }
  const bool high = quad & 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 other = __shfl_xor_sync(0xffffffff, high ? word[i] : word[i + 2], 2);
    (high ? word[i] : word[i + 2]) = other;
  }
}

/// Writes the 64 x 2 Count results of a product, times a factor for each of the thread's two rows. `to` is
/// its first row, of which those in [least, most) are written; `quad` is its place among the four of a row.
/// They leave the L2 cache before what the products read again.
/// The forward has its own copy of the loop: calling this one, ptxas gives its whole kernel other code.
template <class T, int Count>
__device__ __forceinline__ void store_rows(const float (&d)[Count], const float (&share)[2], T* to,
                                           i64 stride, i32 least, i32 most, int quad) {
  // Four threads hold 32 columns of a row as 4 x 4 pairs; transposed, each has 8 columns in a row.
#pragma unroll
  for (int j = 0; j < Count / 16; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      u32 word[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = 16 * j + 4 * k + 2 * r;
        word[k] = pack<T>(d[i] * share[r], d[i + 1] * share[r]);
      }
      transpose_words(word, quad);
      if (8 * r >= least && 8 * r < most) {
        __stcs(reinterpret_cast<uint4*>(to + 8 * r * stride + 32 * j + 8 * quad),
               make_uint4(word[0], word[1], word[2], word[3]));
      }
    }
  }
  if constexpr (Count % 16 != 0) {  // 16 columns are left
#pragma unroll
    for (int i = Count / 16 * 16; i < Count; i += 2) {
      const int r = i / 2 % 2;
      if (8 * r >= least && 8 * r < most) {
        __stcs(reinterpret_cast<u32*>(to + 8 * r * stride + i / 4 * 8 + 2 * quad),
               pack<T>(d[i] * share[r], d[i + 1] * share[r]));
      }
    }
  }
}

}  // namespace hopper
