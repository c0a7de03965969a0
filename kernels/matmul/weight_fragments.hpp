// SPDX-License-Identifier: MIT
// Blocks of quantised weights in shared memory as operands of tensor cores.
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

#include <type_traits>

#include "../gpu/ptx.hpp"
#include "../gpu/weight_format.hpp"

namespace sy::stream {

using u32 = unsigned;
using i32 = int;
using i64 = long long;
using u64 = unsigned long long;
using bf16 = __nv_bfloat16;
using f16 = __half;

using format = weight_format;

/// Weights with one scale.
template <format Format>
inline constexpr i32 group_elements = Format == format::q6_k ? 16 : 32;

/// Where the eight activations come from that a thread multiplies at a time: unit `index` of a row is inputs
/// [first, first + 4) and [second, second + 4).
struct unit_sources {
  i32 first;
  i32 second;
};
template <format Format>
__device__ __forceinline__ unit_sources sources(i32 index) {
  if constexpr (Format == format::q4_0 || Format == format::q4_1) {
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

/// sum = a b, of 16 x 16 and 16 x 8 numbers.
template <class Number>
__device__ __forceinline__ void multiply_first(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
__device__ __forceinline__ void multiply_first<f16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
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
template <int Tiles>
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
      total[n][i] += offset[i / 2] * (i % 2 == 0 ? of_x.x : of_x.y);
    }
  }
}

template <format Format, int Tiles>
struct block;

template <int Tiles>
struct block<format::q8_0, Tiles> {
  static constexpr int inputs = 64;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    add_half<0>(total, from, first);
    add_half<1>(total, from, first);
  }

 private:
  /// Blocks have 34 bytes: the integers of every other one are aligned to words.
  template <int Half>
  __device__ __forceinline__ static void add_half(totals<Tiles>& total, const view<Tiles>& from, int first) {
    u32 low[4];
    u32 high[4];
    float scale[2];
    float offset[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 34 + Half * 34;
      scale[o] = load_half(at);
      offset[o] = -128.0F * scale[o];
      u32 words[2];
      if constexpr (Half == 0) {
        const char* const aligned = at + 8 * from.t;
        const u32 middle = load_word(aligned + 4);
        words[0] = __byte_perm(load_word(aligned), middle, 0x5432);
        words[1] = __byte_perm(middle, load_word(aligned + 8), 0x5432);
      } else {
        words[0] = load_word(at + 2 + 8 * from.t);
        words[1] = load_word(at + 6 + 8 * from.t);
      }
      low[o] = (words[0] ^ 0x00800080U) & 0x00FF00FFU;
      low[2 + o] = ((words[0] >> 8) ^ 0x00800080U) & 0x00FF00FFU;
      high[o] = (words[1] ^ 0x00800080U) & 0x00FF00FFU;
      high[2 + o] = ((words[1] >> 8) ^ 0x00800080U) & 0x00FF00FFU;
    }
    add_group<Tiles>(total, low, high, from, first / 32 + Half, scale, offset);
  }
};

/// Both nibbles of a word's bytes; the upper ones count sixteen times.
__device__ __forceinline__ void split_nibbles(u32 word, u32 (&low)[4], u32 (&high)[4], int o) {
  low[o] = word & 0x000F000FU;
  high[o] = word & 0x00F000F0U;
  word >>= 8;
  low[2 + o] = word & 0x000F000FU;
  high[2 + o] = word & 0x00F000F0U;
}

template <int Tiles>
struct block<format::q4_0, Tiles> {
  static constexpr int inputs = 64;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    add_half<0>(total, from, first);
    add_half<1>(total, from, first);
  }

 private:
  template <int Half>
  __device__ __forceinline__ static void add_half(totals<Tiles>& total, const view<Tiles>& from, int first) {
    u32 low[4];
    u32 high[4];
    float scale[2];
    float offset[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 18 + Half * 18;
      scale[o] = load_half(at);
      offset[o] = -8.0F * scale[o];
      u32 word;
      if constexpr (Half == 0) {
        word = __byte_perm(load_word(at + 4 * from.t), load_word(at + 4 * from.t + 4), 0x5432);
      } else {
        word = load_word(at + 2 + 4 * from.t);
      }
      split_nibbles(word, low, high, o);
    }
    add_group<Tiles>(total, low, high, from, first / 32 + Half, scale, offset);
  }
};

template <int Tiles>
struct block<format::q4_1, Tiles> {
  static constexpr int inputs = 32;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    u32 low[4];
    u32 high[4];
    float scale[2];
    float offset[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 20;
      const float2 factors = halves(load_word(at));
      scale[o] = factors.x;
      offset[o] = factors.y;
      split_nibbles(load_word(at + 4 + 4 * from.t), low, high, o);
    }
    add_group<Tiles>(total, low, high, from, first / 32, scale, offset);
  }
};

template <int Tiles>
struct block<format::q4_k, Tiles> {
  static constexpr int inputs = 256;
  static constexpr int pitch = 80;  ///< bytes of an output's factors
  static constexpr int scratch_bytes = 16 * pitch;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    // Of the eight groups' factors of an output each of its four threads makes those of two.
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    __syncwarp();
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const uint4 head = *reinterpret_cast<const uint4*>(from.w[o] + first / 256 * 144);
      const float2 factors = halves(head.x);
      const bool upper = from.t >= 2;
      const u32 scales =
          upper ? (head.w & 0x0F0F0F0FU) | ((head.y >> 2) & 0x30303030U) : head.y & 0x3F3F3F3FU;
      const u32 offsets =
          upper ? ((head.w >> 4) & 0x0F0F0F0FU) | ((head.z >> 2) & 0x30303030U) : head.z & 0x3F3F3F3FU;
      const u32 selector = 0x7650U + 2U * static_cast<u32>(from.t % 2);
      // The upper nibbles count sixteen times.
      *reinterpret_cast<float4*>(from.scratch + (g + 8 * o) * pitch + 16 * from.t) = {
          factors.x * byte_of(scales, selector), -factors.y * byte_of(offsets, selector),
          0.0625F * factors.x * byte_of(scales, selector + 1U), -factors.y * byte_of(offsets, selector + 1U)};
    }
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      u32 low[2][4];  // groups 2 * pair and 2 * pair + 1
      u32 high[2][4];
      float2 factors[2][2];
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        const uint2 words =
            *reinterpret_cast<const uint2*>(from.w[o] + first / 256 * 144 + 16 + 32 * pair + 8 * from.t);
        split_nibbles(words.x, low[0], low[1], o);
        split_nibbles(words.y, high[0], high[1], o);
        const float4 made = *reinterpret_cast<const float4*>(from.scratch + (g + 8 * o) * pitch + 16 * pair);
        factors[o][0] = {made.x, made.y};
        factors[o][1] = {made.z, made.w};
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float scale[2]{factors[0][j].x, factors[1][j].x};
        const float offset[2]{factors[0][j].y, factors[1][j].y};
        add_group<Tiles>(total, low[j], high[j], from, first / 32 + 2 * pair + j, scale, offset);
      }
    }
  }
};

template <int Tiles>
struct block<format::q6_k, Tiles> {
  static constexpr int inputs = 256;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    float factor[2];
    unaligned_words words[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 256 * 210;
      factor[o] = load_half(at + 208);
      words[o] = unaligned_words{at + 4 * from.t};
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 scales[2][2];  // signed bytes, made positive; eight of a half
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        const unaligned_words at{from.w[o] + first / 256 * 210};
        scales[o][0] = at.load(192 + 8 * half) ^ 0x80808080U;
        scales[o][1] = at.load(196 + 8 * half) ^ 0x80808080U;
      }
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        u32 values[2][4];
#pragma unroll
        for (int o = 0; o < 2; ++o) {
          const u32 low = words[o].load(64 * half + 16 * column);
          const u32 high = words[o].load(64 * half + 32 + 16 * column);
          const u32 upper = words[o].load(128 + 32 * half + 16 * column);
          values[o][0] = (low & 0x0F0F0F0FU) | ((upper << 4) & 0x30303030U);
          values[o][1] = (high & 0x0F0F0F0FU) | ((upper << 2) & 0x30303030U);
          values[o][2] = ((low >> 4) & 0x0F0F0F0FU) | (upper & 0x30303030U);
          values[o][3] = ((high >> 4) & 0x0F0F0F0FU) | ((upper >> 2) & 0x30303030U);
        }
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          u32 a[2][4];
          float scale[2][2];
#pragma unroll
          for (int o = 0; o < 2; ++o) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const u32 value = values[o][2 * pair + j];
              a[j][o] = value & 0x00FF00FFU;
              a[j][2 + o] = (value >> 8) & 0x00FF00FFU;
              const int index = 2 * (2 * pair + j) + column;
              scale[j][o] =
                  factor[o] * (byte_of(scales[o][index / 4], 0x7650U + static_cast<u32>(index % 4)) - 128.0F);
            }
          }
          const int unit = first / 32 + 4 * half + 2 * column + pair;
          const int group = first / 16 + 8 * half + 4 * pair + column;
#pragma unroll
          for (int n = 0; n < Tiles; ++n) {
            const uint4 x = from.unit(n, unit);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              float sum[4];
              multiply_first<f16>(sum, a[j], j == 0 ? x.x : x.z, j == 0 ? x.y : x.w);
              const float2 of_x = from.sum(n, group + 2 * j);
#pragma unroll
              for (int i = 0; i < 4; ++i)
                total[n][i] += scale[j][i / 2] * (sum[i] - 32.0F * (i % 2 == 0 ? of_x.x : of_x.y));
            }
          }
        }
      }
    }
  }
};

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
