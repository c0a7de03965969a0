// SPDX-License-Identifier: MIT
// How warps and blocks join the rows that they have of different keys, and how results are written.
#pragma once

#include "../gpu/ptx.hpp"
#include "decode_call.hpp"
#include "decode_ring.hpp"
#include "decode_row_state.hpp"

namespace sy {

/// Rows of values over exp2(largest), with their sums and largest scores, in shared memory.
template <int Rows, int Dim>
struct joined_rows {
  float values[Rows][Dim];
  float largest[Rows];
  float total[Rows];
};

template <class Shape>
using joined = joined_rows<Shape::rows, Shape::Dim>;

/// The warp's rows, which are [first, first + warp_rows) of the block's.
template <class Shape>
__device__ __forceinline__ void put_rows(const row_state<Shape>& state, joined<Shape>& to, int first,
                                         int lane) {
#pragma unroll
  for (int tile = 0; tile < Shape::Tiles; ++tile) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float sum = state.total[tile][j];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      const int r = first + tile * 8 + lane % 4 * 2 + j;
      if (lane < 4) {
        to.largest[r] = state.largest[tile][j];
        to.total[r] = sum;
      }
#pragma unroll
      for (int step = 0; step < Shape::steps; ++step) {
        const int d = step * 16 + (Shape::Narrow ? lane / 4 * 2 : lane / 4);
        to.values[r][d] = state.values[tile][step][j];
        to.values[r][d + (Shape::Narrow ? 1 : 8)] = state.values[tile][step][2 + j];
      }
    }
  }
}

/// An element of a row, and its row's sum, over exp2(largest).
struct row_value {
  float largest = -INFINITY;
  float total = 0.0F;
  float value = 0.0F;
};

template <int Teams, int Rows, int Dim>
__device__ __forceinline__ row_value join_teams(const joined_rows<Rows, Dim>* teams, int r, int d) {
  row_value result;
#pragma unroll
  for (int t = 0; t < Teams; ++t) result.largest = fmaxf(result.largest, teams[t].largest[r]);
  const float shift = result.largest == -INFINITY ? 0.0F : result.largest;
#pragma unroll
  for (int t = 0; t < Teams; ++t) {
    const float weight = exp2_approximate(teams[t].largest[r] - shift);
    result.value += weight * teams[t].values[r][d];
    result.total += weight * teams[t].total[r];
  }
  return result;
}

/// Takes the sink in and writes an element of the output, and with the first the LSE.
template <class Element>
__device__ __forceinline__ void write_out(const decode_call& call, row_value of, i64 b, int h, int query,
                                          int d) {
  const float sink = call.sinks != nullptr ? call.sinks[h] * log2e : -INFINITY;
  const float most = fmaxf(of.largest, sink);
  const float shift = most == -INFINITY ? 0.0F : most;
  const float rescale = exp2_approximate(of.largest - shift);
  const float total = of.total * rescale + exp2_approximate(sink - shift);
  if (d < call.head_dim_v) {
    const int head_kv = h / (call.heads / call.heads_kv);
    const float v_scale = call.v_scale != nullptr ? call.v_scale[head_kv * call.v_scale_stride] : 1.0F;
    static_cast<Element*>(
        call.out)[b * call.out_stride_batch + h * call.out_stride_head + query * call.out_stride_token + d] =
        static_cast<Element>(total == 0.0F ? 0.0F : of.value * rescale / total * v_scale);
  }
  if (d == 0 && call.lse != nullptr) {
    call.lse[b * call.lse_stride_batch + h * call.lse_stride_head + query] =
        total == 0.0F ? -INFINITY : (most + log2f(total)) * ln2;
  }
}

}  // namespace sy
