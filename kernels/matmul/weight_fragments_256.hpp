// SPDX-License-Identifier: MIT
// Blocks of 256 quantised weights as operands of tensor cores (fragment_operands.hpp).
#pragma once

#include "fragment_operands.hpp"

namespace sy::stream {

/// q4_k and q5_k. The fifth bits are those of eight weights of each group.
template <format Format, int Tiles>
struct six_bit_block {
  static constexpr int inputs = 256;
  static constexpr int bytes = block_bytes<Format>;
  static constexpr bool has_fifths = Format == format::q5_k;
  static constexpr int pitch = 80;  ///< bytes of an output's factors
  static constexpr int scratch_bytes = 16 * pitch;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    // Of the eight groups' factors of an output each of its four threads makes those of two.
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    __syncwarp();
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const uint4 head = *reinterpret_cast<const uint4*>(from.w[o] + first / 256 * bytes);
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
    [[maybe_unused]] uint2 fifths[2];
    if constexpr (has_fifths) {
#pragma unroll
      for (int o = 0; o < 2; ++o)
        fifths[o] = *reinterpret_cast<const uint2*>(from.w[o] + first / 256 * bytes + 16 + 8 * from.t);
    }
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      u32 low[2][4];  // groups 2 * pair and 2 * pair + 1
      u32 high[2][4];
      float2 factors[2][2];
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        const uint2 words = *reinterpret_cast<const uint2*>(from.w[o] + first / 256 * bytes + (bytes - 128) +
                                                            32 * pair + 8 * from.t);
        split_nibbles(words.x, low[0], low[1], o);
        split_nibbles(words.y, high[0], high[1], o);
        if constexpr (has_fifths) {
          add_fifths(fifths[o].x, pair, low[0], low[1], o);
          add_fifths(fifths[o].y, pair, high[0], high[1], o);
        }
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

 private:
  /// Bits 2 * pair and 2 * pair + 1 of each byte above what split_nibbles made.
  __device__ __forceinline__ static void add_fifths(u32 bits, int pair, u32 (&lower)[4], u32 (&upper)[4],
                                                    int o) {
    lower[o] |= (pair < 2 ? bits << (4 - 2 * pair) : bits >> (2 * pair - 4)) & 0x00100010U;
    lower[2 + o] |= bits >> (4 + 2 * pair) & 0x00100010U;
    upper[o] |= bits << (7 - 2 * pair) & 0x01000100U;
    upper[2 + o] |= bits >> (1 + 2 * pair) & 0x01000100U;
  }
};
template <int Tiles>
struct block<format::q4_k, Tiles> : six_bit_block<format::q4_k, Tiles> {};
template <int Tiles>
struct block<format::q5_k, Tiles> : six_bit_block<format::q5_k, Tiles> {};

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

}  // namespace sy::stream
