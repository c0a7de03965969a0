// SPDX-License-Identifier: MIT
// Rows of x as operands of tensor cores, in the order in which weights meet them (fragment_operands.hpp).
#pragma once

#include "fragment_operands.hpp"

namespace sy::stream {

__device__ __forceinline__ float to_float(bf16 x) {
  return __bfloat162float(x);
}
__device__ __forceinline__ float to_float(f16 x) {
  return __half2float(x);
}

/// Four elements.
template <class Number>
struct alignas(8) four {
  Number element[4];
};

/// Where the operands of rows lie: units of f16, the sums of each group of inputs for eight rows of a tile,
/// and by what each row was divided.
struct operand_memory {
  char* units;
  i64 pitch;  ///< bytes from row to row
  float* sums;
  float* scales;
};

/// Makes the operands of one row, by all threads of a block. Largest: memory for a float of each warp.
template <format Format, class Number, int Threads>
__device__ void make_operands(const Number* x, i64 in_features, const operand_memory& to, int row,
                              int columns, float* largest) {
  constexpr int kept = Threads >= 256 ? 4 : 8;  ///< units of a thread that it reads once: of most rows all
  const int thread = static_cast<int>(threadIdx.x);
  const int units = static_cast<int>(in_features / 8);
  four<Number> elements[kept][2];
  float most = 0.0F;
  const auto add_size = [&](const four<Number>& of) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float size = fabsf(to_float(of.element[e]));
      most = size > most ? size : most;  // a NaN is seen in its operand
    }
  };
  const auto read = [&](int unit, four<Number>(&into)[2]) {
    const unit_sources from = sources<Format>(unit);
    into[0] = *reinterpret_cast<const four<Number>*>(x + from.first);
    into[1] = *reinterpret_cast<const four<Number>*>(x + from.second);
  };
#pragma unroll
  for (int j = 0; j < kept; ++j) {
    const int unit = j * Threads + thread;
    if (unit < units) read(unit, elements[j]);
  }
#pragma unroll
  for (int j = 0; j < kept; ++j) {
    if (j * Threads + thread >= units) continue;
    add_size(elements[j][0]);
    add_size(elements[j][1]);
  }
  for (int unit = kept * Threads + thread; unit < units; unit += Threads) {
    four<Number> more[2];
    read(unit, more);
    add_size(more[0]);
    add_size(more[1]);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, lanes));
  if (thread % 32 == 0) largest[thread / 32] = most;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < Threads / 32; ++warp) most = fmaxf(most, largest[warp]);
  __syncthreads();
  // 2^(14 - exponent of the largest), between 2^-114 and 2^126
  const int exponent = static_cast<int>(__float_as_uint(most) >> 23U);
  const int shift = most == 0.0F ? 0 : min(141 - exponent, 126);
  const float scale = __uint_as_float(static_cast<u32>(shift + 127) << 23U);
  if (thread == 0) to.scales[row] = __uint_as_float(static_cast<u32>(127 - shift) << 23U);
  constexpr int halves_of_unit = group_elements<Format> == 16 ? 2 : 1;
  // All lanes take part: sums are those of four threads.
  const auto write = [&](int unit, const four<Number>(&of)[2]) {
    f16 rounded[8];
    float sums[2]{};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      constexpr int order[4]{0, pairs_neighbours<Format> ? 1 : 2, pairs_neighbours<Format> ? 2 : 1, 3};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const f16 value = __float2half_rn(to_float(of[half].element[order[e]]) * scale);
        sums[half] += __half2float(value);
        rounded[4 * half + e] = half == 0 || second_scale<Format> == 1.0F
                                    ? value
                                    : __float2half_rn(__half2float(value) * second_scale<Format>);
      }
    }
    if (halves_of_unit == 1) sums[0] += sums[1];
#pragma unroll
    for (int half = 0; half < halves_of_unit; ++half) {
      sums[half] += __shfl_xor_sync(0xFFFFFFFFU, sums[half], 1);
      sums[half] += __shfl_xor_sync(0xFFFFFFFFU, sums[half], 2);
    }
    if (unit >= units) return;
    *reinterpret_cast<uint4*>(to.units + row * to.pitch + 16 * static_cast<i64>(unit)) =
        *reinterpret_cast<const uint4*>(rounded);
    if (unit % 4 == 0) {
      const unit_sources from = sources<Format>(unit);
      to.sums[static_cast<i64>(from.first / group_elements<Format>) * columns + row] = sums[0] * 0x1p-24F;
      if (halves_of_unit == 2)
        to.sums[static_cast<i64>(from.second / group_elements<Format>) * columns + row] = sums[1] * 0x1p-24F;
    }
  };
#pragma unroll
  for (int j = 0; j < kept; ++j) {
    if (j * Threads < units) write(j * Threads + thread, elements[j]);
  }
  for (int first = kept * Threads; first < units; first += Threads) {
    four<Number> more[2]{};
    if (first + thread < units) read(first + thread, more);
    write(first + thread, more);
  }
}

}  // namespace sy::stream
