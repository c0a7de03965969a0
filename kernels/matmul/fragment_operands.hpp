// SPDX-License-Identifier: MIT
// Operands of tensor cores from blocks of quantised weights in shared memory: what the formats have in
// common.
//
// The integers are f16 as they stand: a number whose exponent bits are zero counts units of 2^-24, so a mask
// makes two of them from a word. Activations become f16 as well, after their row has been scaled by a power
// of two, so that its largest element is just below 2^15; elements down to 2^-29 of that keep all bits that
// bf16 has. The sums of a block are then scaled in f32. What is subtracted from the integers is instead
// multiplied with the sums of the activations, which are known.
//
// Which input a thread's slot stands for is free, as long as weights and activations agree: `sources` orders
// the activations as the masks order the integers.
#pragma once

#include "../gpu/weight_format.hpp"
#include "fragment_device.hpp"

namespace sy::stream {

using format = weight_format;

/// Weights with one scale.
template <format Format>
inline constexpr i32 group_elements = Format == format::q6_k ? 16 : 32;

/// Whether a byte of a block of 32 holds four bits of the weights 16 apart.
template <format Format>
inline constexpr bool has_split_halves =
    Format == format::q4_0 || Format == format::q4_1 || Format == format::q5_0 || Format == format::q5_1 ||
    has_codes<Format>;

/// Where the eight activations come from that a thread multiplies at a time: unit `index` of a row is inputs
/// [first, first + 4) and [second, second + 4).
struct unit_sources {
  i32 first;
  i32 second;
};
template <format Format>
__device__ __forceinline__ unit_sources sources(i32 index) {
  if constexpr (has_split_halves<Format>) {
    const i32 first = index / 4 * 32 + index % 4 * 4;
    return {first, first + 16};
  } else if constexpr (Format == format::q6_k) {  // units of a block: half, column, pair of groups, thread
    const i32 first = index / 16 * 128 + index / 8 % 2 * 16 + index / 4 % 2 * 64 + index % 4 * 4;
    return {first, first + 32};
  } else {
    return {8 * index, 8 * index + 4};
  }
}
/// The second half of such a unit meets integers that stand four bits higher.
template <format Format>
inline constexpr float second_scale = Format == format::q4_0 || Format == format::q4_1 ? 0.0625F : 1.0F;

/// Whether the masks take neighbours of each four, (0, 1) and (2, 3), in place of (0, 2) and (1, 3).
template <format Format>
inline constexpr bool pairs_neighbours = Format == format::iq4_nl;

/// What a sum of a row counts: the integers are units of 2^-24, the numbers of mxfp4 of 2^-14, and its scales
/// are halved.
template <format Format>
inline constexpr float units_of_sum = Format == format::mxfp4 ? 0x1p15F : 0x1p24F;

__device__ __forceinline__ u32 load_word(const char* at) {
  return *reinterpret_cast<const u32*>(at);
}
__device__ __forceinline__ float load_half(const char* at) {
  return __half2float(*reinterpret_cast<const f16*>(at));
}
__device__ __forceinline__ float2 halves(u32 both) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}

/// Words of a block that begins at a multiple of two bytes.
struct unaligned_words {
  const char* aligned;
  u32 shift;

  unaligned_words() = default;
  __device__ __forceinline__ explicit unaligned_words(const char* at)
      : aligned{at - (ptx::shared_address(at) & 2U)}, shift{(ptx::shared_address(at) & 2U) * 8U} {}
  __device__ __forceinline__ u32 load(int offset) const {
    return __funnelshift_r(load_word(aligned + offset), load_word(aligned + offset + 4), shift);
  }
};

/// A byte, by a selector of 0x7650 plus its number, as a float, without the slow conversion.
__device__ __forceinline__ float byte_of(u32 word, u32 selector) {
  return __uint_as_float(__byte_perm(word, 0x4B000000U, selector)) - 8388608.0F;
}

/// Both nibbles of a word's bytes; the upper ones count sixteen times.
__device__ __forceinline__ void split_nibbles(u32 word, u32 (&low)[4], u32 (&high)[4], int o) {
  low[o] = word & 0x000F000FU;
  high[o] = word & 0x00F000F0U;
  word >>= 8;
  low[2 + o] = word & 0x000F000FU;
  high[2 + o] = word & 0x00F000F0U;
}

/// The word that begins `Skipped` bytes into an aligned one.
template <int Skipped>
__device__ __forceinline__ u32 load_word_across(const char* at) {
  if constexpr (Skipped == 0) {
    return load_word(at);
  } else {
    return __byte_perm(load_word(at - Skipped), load_word(at - Skipped + 4), 0x3210U + 0x1111U * Skipped);
  }
}

/// What a thread reads of a stage. Thread 4 g + t of a warp has outputs g and g + 8, rows g of x as operand,
/// and rows 2 t and 2 t + 1 of each tile of eight in the result.
template <int Tiles>
struct view {
  const char* w[2];      ///< first byte of the outputs
  const char* x[Tiles];  ///< first unit of the thread's rows
  const float* sums;     ///< of x, [groups, 8 * Tiles], at row 2 t
  char* scratch;         ///< of the warp
  int t;

  __device__ __forceinline__ uint4 unit(int tile, int index) const {
    return *reinterpret_cast<const uint4*>(x[tile] + 64 * index + 16 * t);
  }
  __device__ __forceinline__ float2 sum(int tile, int group) const {
    return *reinterpret_cast<const float2*>(sums + (group * Tiles + tile) * 8);
  }
};

template <int Tiles>
using totals = float[Tiles][4];

/// total += scale * (a x) + offset * (sum of x), for 32 inputs of four units; scales and offsets by output.
template <int Tiles, bool HasOffset = true>
__device__ __forceinline__ void add_group(totals<Tiles>& total, const u32 (&low)[4], const u32 (&high)[4],
                                          const view<Tiles>& from, int group, const float (&scale)[2],
                                          const float (&offset)[2]) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
    const uint4 x = from.unit(n, group);
    float sum[4];
    multiply_first<f16>(sum, low, x.x, x.y);
    ptx::multiply<f16>(sum, high, x.z, x.w);
    const float2 of_x = from.sum(n, group);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[n][i] += scale[i / 2] * sum[i];
      if constexpr (HasOffset) total[n][i] += offset[i / 2] * (i % 2 == 0 ? of_x.x : of_x.y);
    }
  }
}

template <format Format, int Tiles>
struct block;

}  // namespace sy::stream
