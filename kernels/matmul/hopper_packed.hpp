// SPDX-License-Identifier: MIT
// Quantised weights of 64 inputs of an output, as a thread of hopper_gemm_blocks.cu unpacks them: into a row
// of 128 bytes in shared memory, whose eights are swizzled.
#pragma once

#include "../gpu/weight_blocks.hpp"
#include "hopper_gemm_ptx.hpp"

namespace hopper::gemm {

using sy::weight_format;

/// `unpack` writes the 64 weights of a step to a row of a buffer. Where `staged_bytes` is not 0, the copy
/// engine brings so many bytes of each output to shared memory, from a multiple of `step_bytes` on; otherwise
/// threads load from global memory.
template <weight_format Format>
struct packed_depth;

__device__ __forceinline__ float low_half(u32 word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word)));
}
__device__ __forceinline__ float high_half(u32 word) {
  return low_half(word >> 16);
}

/// Where weights go, and whether as they are rounded, or what that takes away.
struct unpacked_row {
  u32 to;
  u32 row;
  bool is_remainder;
};

/// Stores eight weights: scale * (byte - zero) + offset, of two words.
template <class T>
__device__ __forceinline__ void store_eight(const unpacked_row& at, u32 eight, u32 first, u32 second,
                                            float zero, float scale, float offset) {
  u32 words[4];
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const u32 from = pair < 2 ? first : second;
    const float low = fmaf(sy::byte_less(from, pair % 2 * 2, zero), scale, offset);
    const float high = fmaf(sy::byte_less(from, pair % 2 * 2 + 1, zero), scale, offset);
    words[pair] = pack<T>(low, high);
    if (at.is_remainder) {
      const float2 rounded = unpack<T>(words[pair]);
      words[pair] = pack<T>(low - rounded.x, high - rounded.y);
    }
  }
  store_words(at.to + ((eight ^ (at.row % 8)) << 4), words);
}

/// Four words in shared memory.
__device__ __forceinline__ uint4 load_shared(u32 from) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(from)
               : "memory");
  return words;
}

/// Two blocks of 32, copied to shared memory.
template <int BlockBytes>
struct staged_pair {
  static constexpr u32 step_bytes = 2 * BlockBytes;
  static constexpr u32 staged_bytes = (step_bytes + 15) / 16 * 16;

  u32 word[staged_bytes / 4];

  __device__ __forceinline__ void load(u32 from) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(staged_bytes / 16); ++i) {
      const uint4 four = load_shared(from + 16 * i);
      word[4 * i] = four.x;
      word[4 * i + 1] = four.y;
      word[4 * i + 2] = four.z;
      word[4 * i + 3] = four.w;
    }
  }
  /// The word that begins at this byte, a multiple of two.
  template <int Byte>
  [[nodiscard]] __device__ __forceinline__ u32 at() const {
    if constexpr (Byte % 4 == 0) return word[Byte / 4];
    return __funnelshift_r(word[Byte / 4], word[Byte / 4 + 1], 16);
  }
};

template <>
struct packed_depth<weight_format::q8_0> : staged_pair<34> {
  template <class T>
  __device__ __forceinline__ void unpack(i32, const unpacked_row& to) const {
    unpack_block<T, 0>(to);
    unpack_block<T, 1>(to);
  }

 private:
  template <class T, int Block>
  __device__ __forceinline__ void unpack_block(const unpacked_row& to) const {
    constexpr int begin = 34 * Block;
    const float scale = low_half(at<begin>());
    const u32 words[8]{at<begin + 2>(),  at<begin + 6>(),  at<begin + 10>(), at<begin + 14>(),
                       at<begin + 18>(), at<begin + 22>(), at<begin + 26>(), at<begin + 30>()};
#pragma unroll
    for (int eight = 0; eight < 4; ++eight) {
      store_eight<T>(to, 4 * Block + eight, words[2 * eight] ^ 0x80808080U,
                     words[2 * eight + 1] ^ 0x80808080U, 128.0F, scale, 0.0F);
    }
  }
};

/// Formats with 16 inputs in the low and 16 in the high halves of 16 bytes, behind the factors.
template <class Format, int BlockBytes, int Factors>
struct staged_nibbles : staged_pair<BlockBytes> {
  template <class T>
  __device__ __forceinline__ void unpack(i32, const unpacked_row& to) const {
    unpack_block<T, 0>(to);
    unpack_block<T, 1>(to);
  }

 private:
  template <class T, int Block>
  __device__ __forceinline__ void unpack_block(const unpacked_row& to) const {
    constexpr int begin = BlockBytes * Block;
    const u32 factors = this->template at<begin>();
    const u32 words[4]{this->template at<begin + Factors>(), this->template at<begin + Factors + 4>(),
                       this->template at<begin + Factors + 8>(), this->template at<begin + Factors + 12>()};
#pragma unroll
    for (int eight = 0; eight < 4; ++eight) {
      const int shift = eight / 2 * 4;
      store_eight<T>(to, 4 * Block + eight, words[eight % 2 * 2] >> shift & 0x0F0F0F0FU,
                     words[eight % 2 * 2 + 1] >> shift & 0x0F0F0F0FU, Format::zero, low_half(factors),
                     Format::has_offset ? high_half(factors) : 0.0F);
    }
  }
};

struct q4_0_nibbles {
  static constexpr float zero = 8.0F;
  static constexpr bool has_offset = false;
};
struct q4_1_nibbles {
  static constexpr float zero = 0.0F;
  static constexpr bool has_offset = true;
};
template <>
struct packed_depth<weight_format::q4_0> : staged_nibbles<q4_0_nibbles, 18, 2> {};
template <>
struct packed_depth<weight_format::q4_1> : staged_nibbles<q4_1_nibbles, 20, 4> {};

/// A quarter of a block: two groups of 32, low and high halves of 32 bytes.
template <>
struct packed_depth<weight_format::q4_k> {
  static constexpr u32 step_bytes = 0;
  static constexpr u32 staged_bytes = 0;

  uint4 header, first, second;

  __device__ __forceinline__ void load(const unsigned char* row, i32 step) {
    const unsigned char* const block = row + i64{step / 4} * 144;
    header = __ldg(reinterpret_cast<const uint4*>(block));
    first = __ldg(reinterpret_cast<const uint4*>(block + 16 + step % 4 * 32));
    second = __ldg(reinterpret_cast<const uint4*>(block + 32 + step % 4 * 32));
  }

  template <class T>
  __device__ __forceinline__ void unpack(i32 step, const unpacked_row& to) const {
    const float d = low_half(header.x);
    const float least = high_half(header.x);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 group = 2 * (step % 4) + half;
      const u32 shift = group % 4 * 8;
      const u32 a = header.y >> shift;
      const u32 b = header.z >> shift;
      const u32 c = header.w >> shift;
      const u32 scale_bits = group < 4 ? a & 63U : (c & 15U) | (a >> 2 & 48U);
      const u32 offset_bits = group < 4 ? b & 63U : (c >> 4 & 15U) | (b >> 2 & 48U);
      const float scale = d * static_cast<float>(scale_bits);
      const float offset = -least * static_cast<float>(offset_bits);
#pragma unroll
      for (int eight = 0; eight < 4; ++eight) {
        const uint4& part = eight < 2 ? first : second;
        store_eight<T>(to, 4 * half + eight, (eight % 2 == 0 ? part.x : part.z) >> (4 * half) & 0x0F0F0F0FU,
                       (eight % 2 == 0 ? part.y : part.w) >> (4 * half) & 0x0F0F0F0FU, 0.0F, scale, offset);
      }
    }
  }
};

}  // namespace hopper::gemm
