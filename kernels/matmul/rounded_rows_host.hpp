// SPDX-License-Identifier: MIT
// Activations rounded to integers of 8 or 16 bits, a scale for each group of 32 as in the formats of weights,
// and quantised weights as the integer instructions of AVX2 read them.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "activations_host.hpp"

#if defined(__AVX2__)

namespace {

// __m256 and __m256i as elements of arrays: template arguments lose their attributes.
using eight_floats [[gnu::vector_size(32)]] = float;
using four_longs [[gnu::vector_size(32)]] = long long;

/// What belongs to a group of activations x = scale * q: offsets of weights are multiplied with the sum.
struct group_factors {
  float scale;
  float sum;  ///< of scale * q
};

/// Groups whose factors are read together.
constexpr std::int64_t factor_groups = 4;

/// Rows of x as integers, in memory that others own.
template <class Integer>
struct rounded_rows {
  static_assert(std::is_same_v<Integer, std::int8_t> || std::is_same_v<Integer, std::int16_t>);

  Integer* values;         ///< [rows, 32 * groups]
  group_factors* factors;  ///< [rows, groups]
  std::int64_t groups;

  SWITCHYARD_INLINE rounded_rows(void* memory, std::int64_t rows, std::int64_t groups_of_row)
      : values{static_cast<Integer*>(memory)},
        factors{reinterpret_cast<group_factors*>(values + rows * groups_of_row * group)},
        groups{groups_of_row} {}
};

SWITCHYARD_INLINE float largest_lane(__m256 v) {
  v = _mm256_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
  v = _mm256_max_ps(v, _mm256_shuffle_ps(v, v, 0x4e));
  return _mm256_cvtss_f32(_mm256_max_ps(v, _mm256_shuffle_ps(v, v, 0xb1)));
}

SWITCHYARD_INLINE float sum_lanes(__m256 v) {
  __m128 half_sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half_sum = _mm_add_ps(half_sum, _mm_movehl_ps(half_sum, half_sum));
  return _mm_cvtss_f32(_mm_add_ss(half_sum, _mm_shuffle_ps(half_sum, half_sum, 1)));
}

/// Rounds a staged row. A NaN or an infinity makes NaN of its group.
template <class Integer>
inline void round_row(const float* from, const rounded_rows<Integer>& to, std::int64_t row) {
  constexpr auto most_of_type = static_cast<float>(std::numeric_limits<Integer>::max());
  const __m256 sign = _mm256_set1_ps(-0.0F);
  for (std::int64_t g = 0; g < to.groups; ++g, from += group) {
    const __m256 x0 = _mm256_loadu_ps(from);
    const __m256 x1 = _mm256_loadu_ps(from + 8);
    const __m256 x2 = _mm256_loadu_ps(from + 16);
    const __m256 x3 = _mm256_loadu_ps(from + 24);
    const float most =
        largest_lane(_mm256_max_ps(_mm256_max_ps(_mm256_andnot_ps(sign, x0), _mm256_andnot_ps(sign, x1)),
                                   _mm256_max_ps(_mm256_andnot_ps(sign, x2), _mm256_andnot_ps(sign, x3))));
    // A maximum may lose a NaN.
    const __m256 is_nan =
        _mm256_or_ps(_mm256_cmp_ps(x0, x1, _CMP_UNORD_Q), _mm256_cmp_ps(x2, x3, _CMP_UNORD_Q));
    const bool is_finite = _mm256_movemask_ps(is_nan) == 0 && most <= std::numeric_limits<float>::max();
    // Of numbers whose scale would be subnormal, and its inverse infinite, the scale is the least normal one.
    const float range = most > 0 ? std::max(most, 0x1p-126F * (most_of_type + 1)) : 0.0F;
    const float scale = is_finite ? range * (1.0F / most_of_type) : std::numeric_limits<float>::quiet_NaN();
    const __m256 inverse = _mm256_set1_ps(range > 0 ? most_of_type / range : 0.0F);
    const auto rounded = [&](__m256 x) { return _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)); };
    const __m256i i0 = rounded(x0);
    const __m256i i1 = rounded(x1);
    const __m256i i2 = rounded(x2);
    const __m256i i3 = rounded(x3);
    const __m256i total = _mm256_add_epi32(_mm256_add_epi32(i0, i1), _mm256_add_epi32(i2, i3));
    const std::int64_t at = row * to.groups + g;
    auto* const values = reinterpret_cast<__m256i*>(to.values + at * group);
    // Packing works on halves of 128 bits: permutations bring the parts back into order.
    const __m256i low = _mm256_packs_epi32(i0, i1);
    const __m256i high = _mm256_packs_epi32(i2, i3);
    if constexpr (sizeof(Integer) == 1) {
      const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      _mm256_storeu_si256(values, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
    } else {
      _mm256_storeu_si256(values, _mm256_permute4x64_epi64(low, 0xd8));
      _mm256_storeu_si256(values + 1, _mm256_permute4x64_epi64(high, 0xd8));
    }
    to.factors[at] = {scale, scale * sum_lanes(_mm256_cvtepi32_ps(total))};
  }
}

SWITCHYARD_INLINE __m256i load_wide(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
SWITCHYARD_INLINE __m128i load_narrow(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// 16 in each byte whose bit is set.
SWITCHYARD_INLINE __m256i sixteens_of(const std::uint8_t* bits) {
  std::int32_t all = 0;
  std::memcpy(&all, bits, sizeof all);
  const __m256i spread =
      _mm256_shuffle_epi8(_mm256_set1_epi32(all),
                          _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i single = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201U));
  const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, single), single);
  return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
}

/// What bytes of mxfp4 exceed its doubled integers by.
constexpr float mxfp4_zero = 12;

/// 32 weights as unsigned bytes, of at most five bits.
template <weight_format Format>
SWITCHYARD_INLINE __m256i bytes_of(const group_of<Format>& at) {
  const __m256i low_four = _mm256_set1_epi8(15);
  if constexpr (Format == weight_format::q4_k || Format == weight_format::q5_k) {
    const __m128i shift = _mm_cvtsi64_si128(at.within % 2 * 4);
    const std::uint8_t* const from = at.block + block_bytes(Format) - 128 + at.within / 2 * group;
    const __m256i four_bits = _mm256_and_si256(_mm256_srl_epi16(load_wide(from), shift), low_four);
    if constexpr (Format == weight_format::q4_k) return four_bits;
    const __m256i fifth = _mm256_srl_epi16(load_wide(at.block + 16), _mm_cvtsi64_si128(at.within));
    return _mm256_or_si256(four_bits, _mm256_slli_epi16(_mm256_and_si256(fifth, _mm256_set1_epi8(1)), 4));
  } else {
    const __m128i bytes = load_narrow(at.block + four_bits_at<Format>);
    const __m256i four_bits = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), low_four);
    if constexpr (Format == weight_format::q5_0 || Format == weight_format::q5_1) {
      return _mm256_or_si256(four_bits, sixteens_of(at.block + fifth_bits_at<Format>));
    } else if constexpr (Format == weight_format::mxfp4) {
      const __m256i table = _mm256_broadcastsi128_si256(load_narrow(code_values<Format>.data()));
      return _mm256_add_epi8(_mm256_shuffle_epi8(table, four_bits),
                             _mm256_set1_epi8(static_cast<char>(mxfp4_zero)));
    } else {
      static_assert(Format == weight_format::q4_0 || Format == weight_format::q4_1);
      return four_bits;
    }
  }
}

/// 32 weights as integers of 16 bits.
struct short_weights {
  __m256i first;
  __m256i second;
};

SWITCHYARD_INLINE short_weights widened(__m256i bytes) {
  return {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)),
          _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1))};
}

/// Group `Index` of the four that begin at `at`, whose place in its block is a multiple of four. In the
/// formats with blocks of 32 any group is the first of its block.
template <weight_format Format, std::size_t Index>
SWITCHYARD_INLINE short_weights shorts_of(const group_of<Format>& at) {
  if constexpr (Format == weight_format::q8_0) {
    const std::uint8_t* const from = at.block + Index * block_bytes(Format) + 2;
    return {_mm256_cvtepi8_epi16(load_narrow(from)), _mm256_cvtepi8_epi16(load_narrow(from + 16))};
  } else if constexpr (Format == weight_format::q4_0 || Format == weight_format::q4_1) {
    const std::uint8_t* const from = at.block + Index * block_bytes(Format) + four_bits_at<Format>;
    const __m256i bytes = _mm256_cvtepu8_epi16(load_narrow(from));
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(15)), _mm256_srli_epi16(bytes, 4)};
  } else if constexpr (Format == weight_format::q5_0 || Format == weight_format::q5_1) {
    const std::uint8_t* const block = at.block + Index * block_bytes(Format);
    const __m128i bytes = load_narrow(block + four_bits_at<Format>);
    const __m256i low_four =
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
    return widened(_mm256_or_si256(low_four, sixteens_of(block + fifth_bits_at<Format>)));
  } else if constexpr (has_codes<Format>) {
    const __m128i bytes = load_narrow(at.block + Index * block_bytes(Format) + four_bits_at<Format>);
    const __m256i codes =
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
    const __m256i table = _mm256_broadcastsi128_si256(load_narrow(code_values<Format>.data()));
    return widened(_mm256_shuffle_epi8(table, codes));
  } else if constexpr (Format == weight_format::q5_k) {
    const __m256i pairs = load_wide(at.block + 48 + (at.within + Index) / 2 * group);
    const __m256i low_four =
        _mm256_and_si256(Index % 2 == 1 ? _mm256_srli_epi16(pairs, 4) : pairs, _mm256_set1_epi8(15));
    const __m128i shift = _mm_cvtsi64_si128(at.within + static_cast<std::int64_t>(Index));
    const __m256i fifth =
        _mm256_and_si256(_mm256_srl_epi16(load_wide(at.block + 16), shift), _mm256_set1_epi8(1));
    return widened(_mm256_or_si256(low_four, _mm256_slli_epi16(fifth, 4)));
  } else if constexpr (Format == weight_format::q4_k) {
    const std::uint8_t* const from = at.block + 16 + (at.within + Index) / 2 * group;
    const auto four_bits = [](__m256i bytes) {
      return Index % 2 == 1 ? _mm256_srli_epi16(bytes, 4) : _mm256_and_si256(bytes, _mm256_set1_epi16(15));
    };
    return {four_bits(_mm256_cvtepu8_epi16(load_narrow(from))),
            four_bits(_mm256_cvtepu8_epi16(load_narrow(from + 16)))};
  } else {
    static_assert(Format == weight_format::q6_k);  // a scale for each 16 weights
    const std::int64_t half = at.within / 4;
    const __m256i low_bytes = load_wide(at.block + half * 64 + Index % 2 * group);
    const __m256i low =
        _mm256_and_si256(Index < 2 ? low_bytes : _mm256_srli_epi16(low_bytes, 4), _mm256_set1_epi8(15));
    const __m256i high_bytes = load_wide(at.block + 128 + half * group);
    // The two bits of this group, brought to places 4 and 5 of each byte.
    const __m256i high = _mm256_and_si256(Index == 0   ? _mm256_slli_epi16(high_bytes, 4)
                                          : Index == 1 ? _mm256_slli_epi16(high_bytes, 2)
                                          : Index == 2 ? high_bytes
                                                       : _mm256_srli_epi16(high_bytes, 2),
                                          _mm256_set1_epi8(0x30));
    const __m256i bytes = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
    const auto* const scales = reinterpret_cast<const std::int8_t*>(at.block + 192 + (at.within + Index) * 2);
    const short_weights integers = widened(bytes);
    return {_mm256_mullo_epi16(integers.first, _mm256_set1_epi16(scales[0])),
            _mm256_mullo_epi16(integers.second, _mm256_set1_epi16(scales[1]))};
  }
}

}  // namespace

#endif
