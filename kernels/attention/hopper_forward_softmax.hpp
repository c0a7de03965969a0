// SPDX-License-Identifier: MIT
// Attention forward on Hopper: the running softmax of a thread's rows.
#pragma once

#include "hopper_parts.hpp"

namespace hopper {

template <class T>
inline constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<__nv_bfloat16> = true;

/// The rows of one thread: r and r + 8 of its warp.
struct row_state {
  float maximum[2] = {-infinity, -infinity};  ///< of raw scores, or less by up to 2^8 once scaled
  float sum[2] = {0.0F, 0.0F};                ///< of this thread's columns
  float rescale[2];                           ///< what the output is to be multiplied by
  bool needs_rescale = false;                 ///< whether a row of the warp needs it
};

/// The maxima of rows with these scores, and what follows for those before; `factor` brings scores to units
/// of log2.
template <int Count>
__device__ __forceinline__ void raise_maxima(const float (&scores)[Count], row_state& rows, float factor) {
  float most[2][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r][0] = fmaxf(scores[2 * r], scores[2 * r + 4]);
    most[r][1] = fmaxf(scores[2 * r + 1], scores[2 * r + 5]);
  }
#pragma unroll
  for (int j = 8; j < Count; j += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r][0] = fmaxf(most[r][0], scores[j + 2 * r]);
      most[r][1] = fmaxf(most[r][1], scores[j + 2 * r + 1]);
    }
  }
  float now[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    now[r] = fmaxf(most[r][0], most[r][1]);
    now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 1));
    now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 2));
  }
  constexpr float tolerated = 8.0F;
  const bool exceeds = fmaf(rows.maximum[0], factor, tolerated) < now[0] * factor ||
                       fmaf(rows.maximum[1], factor, tolerated) < now[1] * factor;
  rows.needs_rescale = __any_sync(0xffffffff, exceeds);
  if (rows.needs_rescale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float next = fmaxf(rows.maximum[r], now[r]);
      const float anchor = next == -infinity ? 0.0F : next;
      rows.rescale[r] = exp2_approximate((rows.maximum[r] - anchor) * factor);
      rows.sum[r] *= rows.rescale[r];
      rows.maximum[r] = next;
    }
  }
}

/// The largest exponent of a weight that f32 sums of many of them have room for.
inline constexpr float largest_exponent = 90.0F;

/// Scores to weights. `Bounded`: no score exceeds `factor`, once multiplied with it, and weights are rounded
/// to bf16, which has the exponents of f32. Then the maxima of a tile's first block serve all of its blocks,
/// unless the exponents do not suffice; weights may exceed 1.
template <bool Bounded, bool First, int Count>
__device__ __forceinline__ void weigh(float (&scores)[Count], row_state& rows, float factor) {
  if constexpr (Bounded) {
    if (First || factor > largest_exponent) {
      raise_maxima(scores, rows, factor);
      if (factor <= largest_exponent) {
        const float least = 1.0F - __fdividef(largest_exponent, factor);
#pragma unroll
        for (int r = 0; r < 2; ++r) rows.maximum[r] = fmaxf(rows.maximum[r], least);
      }
    }
  } else {
    raise_maxima(scores, rows, factor);
  }
  float shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) shift[r] = rows.maximum[r] == -infinity ? 0.0F : rows.maximum[r] * factor;
  float sum[2][2] = {};
#pragma unroll
  for (int j = 0; j < Count; j += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& score = scores[j + 2 * r + c];
        score = exp2_approximate(fmaf(score, factor, -shift[r]));
        sum[r][c] += score;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sum[r][0] + sum[r][1];
}

}  // namespace hopper
