// SPDX-License-Identifier: MIT
// Products of rows with a matrix of weights in any format. Semantics: operators/matmul_quantized.hpp.
//
// A warp computes `Outputs` outputs of `Rows` rows. Its lanes take eights of a row in turn: neighbouring
// lanes read neighbouring weights, each of which is converted once for all rows, and each activation once for
// all outputs. Activations are not rounded; products are summed in f32 by each lane, then over the lanes.
#include "../gpu/split_index.hpp"
#include "../gpu/weight_blocks.hpp"

namespace sy {

struct matmul_call {
  const u8* x;
  const u8* w;
  const float* bias;
  void* out;
  i64 rows, in_features, out_features;
  i64 x_stride_row, out_stride_row, w_row_bytes;
  i32 out_dtype;
};

/// Sums `Count` values, a power of two up to 32, over 32 lanes. Lane l gets the sum of value l * Count / 32:
/// while there are several, lanes keep half of them each, and pass on the other half.
template <int Mask = 16, int Count>
__device__ __forceinline__ float sum_to_lanes(const float (&values)[Count], int lane) {
  if constexpr (Count > 1) {
    const bool is_upper = (lane & Mask) != 0;
    float half[Count / 2];
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) {
      const float kept = is_upper ? values[i + Count / 2] : values[i];
      const float passed = is_upper ? values[i] : values[i + Count / 2];
      half[i] = kept + shuffle_xor(passed, Mask);
    }
    return sum_to_lanes<Mask / 2>(half, lane);
  } else if constexpr (Mask > 0) {
    const float both[1] = {values[0] + shuffle_xor(values[0], Mask)};
    return sum_to_lanes<Mask / 2>(both, lane);
  } else {
    return values[0];
  }
}

/// Stores a result as the element type of that number, as base/dtype.hpp counts them.
__device__ __forceinline__ void store_as(i32 dtype, void* out, i64 index, float value) {
  if (dtype == 0) {
    from_float(value, static_cast<f16*>(out)[index]);
  } else if (dtype == 1) {
    from_float(value, static_cast<bf16*>(out)[index]);
  } else {
    static_cast<float*>(out)[index] = value;
  }
}

/// X: the activations' element type. Rows of x lie at multiples of XAlign bytes, those of w at multiples of
/// Align; with 16 either has a multiple of eight elements.
template <weight_format X, weight_format Format, int XAlign, int Align, int Rows, int Outputs, int Threads>
__device__ __forceinline__ void dot(const matmul_call& call) {
  begin_kernel();
  constexpr int lanes = 32;
  constexpr int warps = Threads / lanes;
  constexpr int depth = Rows == 1 ? 4 : 1;  // eights whose loads are under way together
  constexpr i64 x_bytes = X == weight_format::f32 ? 4 : 2;
  const int lane = thread_index() % lanes;
  // Blocks of the same outputs follow each other: the later ones find the weights in the L2 cache.
  const split_index tile{block_index(), (call.rows + Rows - 1) / Rows};
  const i64 first_row = tile.rest * Rows;
  const i64 first_output = (tile.quotient * warps + thread_index() / lanes) * Outputs;
  if (first_output >= call.out_features) return;

  // What does not exist is computed from the last that does, and not stored.
  const u8* x[Rows];
  const u8* w[Outputs];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const i64 row = first_row + r < call.rows ? first_row + r : call.rows - 1;
    x[r] = call.x + row * call.x_stride_row * x_bytes;
  }
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
    const i64 output = first_output + o < call.out_features ? first_output + o : call.out_features - 1;
    w[o] = call.w + output * call.w_row_bytes;
  }

  float sums[Rows * Outputs];
#pragma unroll
  for (int i = 0; i < Rows * Outputs; ++i) sums[i] = 0.0F;
  const u32 eights = static_cast<u32>((call.in_features + 7) / 8);
  for (u32 first = lane; first < eights; first += lanes * depth) {
    eight_weights<Format, Align> packed_w[depth][Outputs];
    eight_weights<X, XAlign> packed_x[depth][Rows];
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      const u32 index = first + d * lanes;
      if (index >= eights) continue;
      const i64 left = call.in_features - static_cast<i64>(index) * 8;
#pragma unroll
      for (int o = 0; o < Outputs; ++o) packed_w[d][o].load(w[o], index, left);
#pragma unroll
      for (int r = 0; r < Rows; ++r) packed_x[d][r].load(x[r], index, left);
    }
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      if (first + d * lanes >= eights) continue;
      float weights[Outputs][8];
#pragma unroll
      for (int o = 0; o < Outputs; ++o) packed_w[d][o].get(weights[o]);
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        float values[8];
        packed_x[d][r].get(values);
#pragma unroll
        for (int o = 0; o < Outputs; ++o) {
#pragma unroll
          for (int e = 0; e < 8; ++e) sums[r * Outputs + o] += values[e] * weights[o][e];
        }
      }
    }
  }

  constexpr int copies = lanes / (Rows * Outputs);  // lanes with the same sum
  const float sum = sum_to_lanes(sums, lane);
  const i64 row = first_row + lane / copies / Outputs;
  const i64 output = first_output + lane / copies % Outputs;
  if (lane % copies == 0 && row < call.rows && output < call.out_features) {
    const float bias = call.bias != nullptr ? call.bias[output] : 0.0F;
    store_as(call.out_dtype, call.out, row * call.out_stride_row + output, sum + bias);
  }
}

}  // namespace sy

#define SY_MATMUL_DOT(name, X, format, x_align, align, rows, outputs, threads)                              \
  extern "C" SY_KERNEL(threads, 1) name(sy::matmul_call call) {                                             \
    sy::dot<sy::weight_format::X, sy::weight_format::format, x_align, align, rows, outputs, threads>(call); \
  }
