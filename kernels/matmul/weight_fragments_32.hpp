// SPDX-License-Identifier: MIT
// Blocks of 32 quantised weights as operands of tensor cores (fragment_operands.hpp).
#pragma once

#include "fragment_operands.hpp"

namespace sy::stream {

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

/// Four weights of five bits in the bytes of a word: the lower four bits of those of `word`, and bits 0 to 3
/// of `fifths`.
__device__ __forceinline__ u32 join_five_bits(u32 word, u32 fifths) {
  return (word & 0x0F0F0F0FU) | ((fifths & 15U) * 0x02040810U & 0x10101010U);
}

/// What q5_0 and q5_1 have in common.
struct five_bits {
  /// The integers of eight weights: nibbles, and the fifth bits of the block's 32.
  __device__ __forceinline__ static void split(u32 word, u32 fifths, int t, u32 (&low)[4], u32 (&high)[4],
                                               int o) {
    fifths >>= 4 * t;
    const u32 first = join_five_bits(word, fifths);
    const u32 second = join_five_bits(word >> 4, fifths >> 16);
    low[o] = first & 0x00FF00FFU;
    low[2 + o] = __byte_perm(first, 0, 0x4341);
    high[o] = second & 0x00FF00FFU;
    high[2 + o] = __byte_perm(second, 0, 0x4341);
  }
};

template <int Tiles>
struct block<format::q5_0, Tiles> : five_bits {
  static constexpr int inputs = 64;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    add_half<0>(total, from, first);
    add_half<1>(total, from, first);
  }

 private:
  template <int Half>
  __device__ __forceinline__ static void add_half(totals<Tiles>& total, const view<Tiles>& from, int first) {
    constexpr int skipped = Half == 0 ? 2 : 0;
    u32 low[4];
    u32 high[4];
    float scale[2];
    float offset[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 22 + Half * 22;
      scale[o] = load_half(at);
      offset[o] = -16.0F * scale[o];
      split(load_word_across<skipped>(at + 6 + 4 * from.t), load_word_across<skipped>(at + 2), from.t, low,
            high, o);
    }
    add_group<Tiles>(total, low, high, from, first / 32 + Half, scale, offset);
  }
};

template <int Tiles>
struct block<format::q5_1, Tiles> : five_bits {
  static constexpr int inputs = 32;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    u32 low[4];
    u32 high[4];
    float scale[2];
    float offset[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 24;
      const uint2 head = *reinterpret_cast<const uint2*>(at);
      const float2 factors = halves(head.x);
      scale[o] = factors.x;
      offset[o] = factors.y;
      split(load_word(at + 8 + 4 * from.t), head.y, from.t, low, high, o);
    }
    add_group<Tiles>(total, low, high, from, first / 32, scale, offset);
  }
};

template <int Tiles>
struct block<format::iq4_nl, Tiles> {
  static constexpr int inputs = 64;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    add_half<0>(total, from, first);
    add_half<1>(total, from, first);
  }

 private:
  /// The bytes that four codes stand for, of the lower half of a word. `within`: their lower three bits;
  /// `halves`: selectors between the table's halves.
  __device__ __forceinline__ static u32 look_up(u32 within, u32 halves) {
    const u32 lower = __byte_perm(code_bytes<format::iq4_nl, 0>, code_bytes<format::iq4_nl, 1>, within);
    const u32 upper = __byte_perm(code_bytes<format::iq4_nl, 2>, code_bytes<format::iq4_nl, 3>, within);
    return __byte_perm(lower, upper, halves);
  }
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
      offset[o] = -128.0F * scale[o];
      const u32 codes = load_word_across < Half == 0 ? 2 : 0 > (at + 2 + 4 * from.t);
      const u32 within = codes & 0x77777777U;
      const u32 halves = (codes >> 1 & 0x44444444U) | 0x32103210U;
      // Codes of a byte, the lower one first, are of weights 16 apart.
      const u32 first_pairs = look_up(within, halves);
      const u32 second_pairs = look_up(within >> 16, halves >> 16);
      low[o] = first_pairs & 0x00FF00FFU;
      low[2 + o] = second_pairs & 0x00FF00FFU;
      high[o] = __byte_perm(first_pairs, 0, 0x4341);
      high[2 + o] = __byte_perm(second_pairs, 0, 0x4341);
    }
    add_group<Tiles>(total, low, high, from, first / 32 + Half, scale, offset);
  }
};

/// A number of e2m1 is an f16 whose upper bits of the exponent are zero, divided by 2^14.
template <int Tiles>
struct block<format::mxfp4, Tiles> {
  static constexpr int inputs = 128;
  static constexpr int scratch_bytes = 0;
  __device__ __forceinline__ static void add(totals<Tiles>& total, const view<Tiles>& from, int first) {
    add_quarter<0>(total, from, first);
    add_quarter<1>(total, from, first);
    add_quarter<2>(total, from, first);
    add_quarter<3>(total, from, first);
  }

 private:
  /// 2^(e - 128), subnormal for two of them.
  __device__ __forceinline__ static float half_of_power(i32 e) {
    return __int_as_float(max((e - 1) * (1 << 23), (e + 1) * (1 << 21)));
  }
  /// Blocks have 17 bytes: the first of four is aligned to words.
  template <int Quarter>
  __device__ __forceinline__ static void add_quarter(totals<Tiles>& total, const view<Tiles>& from,
                                                     int first) {
    u32 low[4];
    u32 high[4];
    float scale[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const char* const at = from.w[o] + first / 32 * 17 + Quarter * 17;
      scale[o] = half_of_power(static_cast<unsigned char>(*at));
      const u32 word = load_word_across<(Quarter + 1) % 4>(at + 1 + 4 * from.t);
      low[o] = (word << 9 & 0x0E000E00U) | (word << 12 & 0x80008000U);
      high[o] = (word << 5 & 0x0E000E00U) | (word << 8 & 0x80008000U);
      low[2 + o] = (word << 1 & 0x0E000E00U) | (word << 4 & 0x80008000U);
      high[2 + o] = (word >> 3 & 0x0E000E00U) | (word & 0x80008000U);
    }
    add_group<Tiles, false>(total, low, high, from, first / 32 + Quarter, scale, scale);
  }
};

}  // namespace sy::stream
