// SPDX-License-Identifier: MIT
// Weights as kernels read them, eight neighbours of a row at a time: plain ones, or those of the quantised
// blocks that operators/weight_format.hpp defines. Eight weights never straddle a block, and share their
// scale.
//
// `Align` is what divides the start of a row: bytes up to 16. Blocks of most formats lie at multiples of two
// bytes whatever the row does, and are read in 16-bit pieces: only q4_k and q5_k gain from 16, q5_1 from 8
// and q4_1 from 4. Blocks of mxfp4 begin anywhere: they are read in bytes, or with 4, which must then divide
// the bytes of a row as well, in words.
#pragma once

#include "portable.hpp"
#include "weight_format.hpp"

namespace sy {

using u8 = unsigned char;

/// A word at a multiple of Align bytes.
template <int Align>
[[nodiscard]] __device__ __forceinline__ u32 load_word(const u8* from) {
  if constexpr (Align >= 4) {
    return *reinterpret_cast<const u32*>(from);
  } else if constexpr (Align == 1) {
    return from[0] | static_cast<u32>(from[1]) << 8U | static_cast<u32>(from[2]) << 16U |
           static_cast<u32>(from[3]) << 24U;
  } else {
    const auto* halves = reinterpret_cast<const u16*>(from);
    return static_cast<u32>(halves[0]) | static_cast<u32>(halves[1]) << 16U;
  }
}

struct alignas(8) word_pair {
  u32 word[2];
};

template <int Align>
[[nodiscard]] __device__ __forceinline__ word_pair load_pair(const u8* from) {
  if constexpr (Align >= 8) {
    return *reinterpret_cast<const word_pair*>(from);
  } else {
    return {{load_word<Align>(from), load_word<Align>(from + 4)}};
  }
}

template <int Align>
[[nodiscard]] __device__ __forceinline__ quad load_words(const u8* from) {
  if constexpr (Align >= 16) {
    return load_quad(from);
  } else {
    const word_pair first = load_pair<Align>(from);
    const word_pair second = load_pair<Align>(from + 8);
    return {{first.word[0], first.word[1], second.word[0], second.word[1]}};
  }
}

/// The low word of two that are shifted by less than 32.
[[nodiscard]] __device__ __forceinline__ u32 shift_right(u32 low, u32 high, u32 bits) {
#if defined(SWITCHYARD_HIP_DEVICE)
  return __builtin_amdgcn_alignbit(high, low, bits);
#else
  return __funnelshift_r(low, high, bits);
#endif
}

/// The two words at any address. Reads the aligned words that hold them, and no others.
[[nodiscard]] __device__ __forceinline__ word_pair load_pair_within_words(const u8* from) {
  const u32 skipped = static_cast<u32>(reinterpret_cast<size_t>(from)) & 3U;
  const u32 first = load_word<4>(from - skipped);
  const u32 second = load_word<4>(from - skipped + 4);
  const u32 third = load_word<4>(from - skipped + (skipped == 0 ? 4 : 8));
  const u32 shift = 8 * skipped;
  return {{shift_right(first, second, shift), shift_right(second, third, shift)}};
}

[[nodiscard]] __device__ __forceinline__ float half_of(u32 bits) {
  return to_float(f16{static_cast<u16>(bits)});
}

/// Byte `index` of a word, less `zero`, as a float.
[[nodiscard]] __device__ __forceinline__ float byte_less(u32 word, int index, float zero) {
#if defined(SWITCHYARD_HIP_DEVICE)
  return static_cast<float>((word >> (8 * index)) & 0xFFU) - zero;
#else
  // Below the bits of 2^23 a byte is the integer: conversions have a quarter of the rate at best.
  return as_float(__byte_perm(word, 0x4B000000U, 0x7440U | static_cast<u32>(index))) - (0x1p23F + zero);
#endif
}

/// The bytes that eight codes stand for, one code in each byte of two words.
template <weight_format Format>
__device__ __forceinline__ void decode(u32 (&bytes)[2]) {
#if defined(SWITCHYARD_HIP_DEVICE)
#pragma unroll
  for (u32& codes : bytes) {
    const u32 within = codes & 0x07070707U;
    const u32 is_upper = (codes >> 3U & 0x01010101U) * 0xFFU;
    const u32 lower = __builtin_amdgcn_perm(code_bytes<Format, 1>, code_bytes<Format, 0>, within);
    const u32 upper = __builtin_amdgcn_perm(code_bytes<Format, 3>, code_bytes<Format, 2>, within);
    codes = (lower & ~is_upper) | (upper & is_upper);
  }
#else
  // A selector has four bits: three choose among eight bytes, the highest would repeat a sign.
  const u32 codes = bytes[0] | bytes[1] << 4U;
  u32 pairs[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const u32 within = (codes & 0x77777777U) >> (16 * half);
    const u32 lower = __byte_perm(code_bytes<Format, 0>, code_bytes<Format, 1>, within);
    const u32 upper = __byte_perm(code_bytes<Format, 2>, code_bytes<Format, 3>, within);
    pairs[half] = __byte_perm(lower, upper, ((codes & 0x88888888U) >> (16 * half + 1)) | 0x3210U);
  }
  bytes[0] = __byte_perm(pairs[0], pairs[1], 0x6420);
  bytes[1] = __byte_perm(pairs[0], pairs[1], 0x7531);
#endif
}

/// Bits 0 to 3 of a word as the fifths of four bytes.
[[nodiscard]] __device__ __forceinline__ u32 spread_fifths(u32 bits) {
  return ((bits & 15U) * 0x00204081U & 0x01010101U) << 4U;
}

/// Half of 2^(e - 127), since the codes of mxfp4 stand for doubles: below 2^-126 it is subnormal.
[[nodiscard]] __device__ __forceinline__ float half_of_power(u32 e) {
  return as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23U);
}

/// Weights [8 index, 8 index + 8) of a row. load() only loads, so that the loads of several can be under way
/// together. Plain weights from `left` on are 0, and are not read; with Align 16 all eight exist.
template <weight_format Format, int Align>
class eight_weights {
 public:
  __device__ __forceinline__ void load(const u8* row, u32 index, [[maybe_unused]] i64 left) {
    constexpr bool is_wide = Align >= 16;
    constexpr int elements = Format == weight_format::f32 ? 4 : 8;  // in 16 bytes
    const u8* at = row + static_cast<i64>(index) * (128 / elements);
#pragma unroll
    for (int part = 0; part < 8 / elements; ++part) {
      if constexpr (is_wide) {
        parts_[part] = load_quad(at + part * 16);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int first = part * elements + i * elements / 4;
          u32 word = 0;
          if constexpr (elements == 4) {
            if (first < left) word = *reinterpret_cast<const u32*>(at + first * 4);
          } else {
            if (first < left) word = *reinterpret_cast<const u16*>(at + first * 2);
            if (first + 1 < left)
              word |= static_cast<u32>(*reinterpret_cast<const u16*>(at + first * 2 + 2)) << 16U;
          }
          parts_[part].word[i] = word;
        }
      }
    }
  }

  __device__ __forceinline__ void get(float (&values)[8]) const {
    if constexpr (Format == weight_format::f32) {
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = as_float(parts_[e / 4].word[e % 4]);
    } else if constexpr (Format == weight_format::f16) {
      unpack<f16>(parts_[0], values);
    } else {
      unpack<bf16>(parts_[0], values);
    }
  }

 private:
  quad parts_[Format == weight_format::f32 ? 2 : 1];
};

/// The eight of a quantised block: bytes, and w = scale * (byte - zero) + offset.
template <weight_format Format, int Align>
requires(!is_plain<Format>) class eight_weights<Format, Align> {
 public:
  __device__ __forceinline__ void load(const u8* row, u32 index, i64) {
    constexpr u32 eights = block_elements<Format> / 8;
    const u8* block = row + static_cast<i64>(index / eights) * block_bytes<Format>;
    within_ = index % eights;
    if constexpr (Format == weight_format::q8_0) {
      head_ = *reinterpret_cast<const u16*>(block);
      low_ = load_pair<2>(block + 2 + within_ * 8);
    } else if constexpr (Format == weight_format::q4_0 || Format == weight_format::iq4_nl) {
      head_ = *reinterpret_cast<const u16*>(block);
      low_ = load_pair<2>(block + 2 + within_ % 2 * 8);
    } else if constexpr (Format == weight_format::q4_1) {
      constexpr int align = Align < 4 ? Align : 4;
      head_ = load_word<align>(block);
      low_ = load_pair<align>(block + 4 + within_ % 2 * 8);
    } else if constexpr (Format == weight_format::q5_0) {
      head_ = *reinterpret_cast<const u16*>(block);
      high_.word[0] = block[2 + within_];
      low_ = load_pair<2>(block + 6 + within_ % 2 * 8);
    } else if constexpr (Format == weight_format::q5_1) {
      constexpr int align = Align < 8 ? Align : 8;
      head_ = load_word<align>(block);
      high_.word[0] = block[4 + within_];
      low_ = load_pair<align>(block + 8 + within_ % 2 * 8);
    } else if constexpr (Format == weight_format::mxfp4) {
      head_ = block[0];
      if constexpr (Align >= 4) {
        low_ = load_pair_within_words(block + 1 + within_ % 2 * 8);
      } else {
        low_ = load_pair<1>(block + 1 + within_ % 2 * 8);
      }
    } else if constexpr (Format == weight_format::q4_k) {
      header_ = load_words<Align>(block);
      low_ = load_pair<Align>(block + 16 + within_ / 8 * 32 + within_ % 4 * 8);
    } else if constexpr (Format == weight_format::q5_k) {
      header_ = load_words<Align>(block);
      high_ = load_pair<Align>(block + 16 + within_ % 4 * 8);
      low_ = load_pair<Align>(block + 48 + within_ / 8 * 32 + within_ % 4 * 8);
    } else {
      static_assert(Format == weight_format::q6_k);
      const u32 half = within_ / 16;
      const u32 at = within_ % 4 * 8;
      low_ = load_pair<2>(block + half * 64 + within_ / 4 % 2 * 32 + at);
      high_ = load_pair<2>(block + 128 + half * 32 + at);
      scale_ = static_cast<signed char>(block[192 + within_ / 2]);
      head_ = *reinterpret_cast<const u16*>(block + 208);
    }
  }

  __device__ __forceinline__ void get(float (&values)[8]) const {
    float scale = half_of(head_);
    float offset = 0.0F;
    float zero = 0.0F;
    u32 bytes[2];
    if constexpr (Format == weight_format::q8_0) {
      zero = 128.0F;
      set(bytes, [this](int i) { return low_.word[i] ^ 0x80808080U; });
    } else if constexpr (Format == weight_format::q4_0 || Format == weight_format::q4_1) {
      if constexpr (Format == weight_format::q4_0) zero = 8.0F;
      if constexpr (Format == weight_format::q4_1) offset = half_of(head_ >> 16U);
      set(bytes, [this](int i) { return low_.word[i] >> (within_ / 2 * 4) & 0x0F0F0F0FU; });
    } else if constexpr (has_codes<Format>) {
      if constexpr (Format == weight_format::mxfp4) scale = half_of_power(head_);
      zero = 128.0F;
      set(bytes, [this](int i) { return low_.word[i] >> (within_ / 2 * 4) & 0x0F0F0F0FU; });
      decode<Format>(bytes);
    } else if constexpr (Format == weight_format::q5_0 || Format == weight_format::q5_1) {
      if constexpr (Format == weight_format::q5_0) zero = 16.0F;
      if constexpr (Format == weight_format::q5_1) offset = half_of(head_ >> 16U);
      set(bytes, [this](int i) {
        return (low_.word[i] >> (within_ / 2 * 4) & 0x0F0F0F0FU) | spread_fifths(high_.word[0] >> (4 * i));
      });
    } else if constexpr (Format == weight_format::q4_k || Format == weight_format::q5_k) {
      const u32 group = within_ / 4;
      const u32 shift = group % 4 * 8;
      const u32 first = header_.word[1] >> shift;
      const u32 second = header_.word[2] >> shift;
      const u32 third = header_.word[3] >> shift;
      const u32 s = group < 4 ? first & 63U : (third & 15U) | (first >> 2U & 48U);
      const u32 t = group < 4 ? second & 63U : (third >> 4U & 15U) | (second >> 2U & 48U);
      scale = half_of(header_.word[0]) * static_cast<float>(s);
      offset = -half_of(header_.word[0] >> 16U) * static_cast<float>(t);
      set(bytes, [this, group](int i) {
        const u32 four = low_.word[i] >> (group % 2 * 4) & 0x0F0F0F0FU;
        if constexpr (Format == weight_format::q4_k) return four;
        return four | (high_.word[i] >> group & 0x01010101U) << 4U;
      });
    } else {
      const u32 quarter = within_ / 4 % 4;
      zero = 32.0F;
      scale *= static_cast<float>(scale_);
      set(bytes, [this, quarter](int i) {
        return (low_.word[i] >> (quarter / 2 * 4) & 0x0F0F0F0FU) |
               (high_.word[i] >> (quarter * 2) & 0x03030303U) << 4U;
      });
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) values[e] = byte_less(bytes[e / 4], e % 4, zero) * scale + offset;
  }

 private:
  template <class Word>
  static __device__ __forceinline__ void set(u32 (&bytes)[2], const Word& word) {
    bytes[0] = word(0);
    bytes[1] = word(1);
  }

  u32 within_;  ///< which eight of the block
  u32 head_ = 0;
  i32 scale_ = 0;
  quad header_;
  word_pair low_;
  word_pair high_;
};

}  // namespace sy
