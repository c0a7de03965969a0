// SPDX-License-Identifier: MIT
// Few rows of activations in 16 bits times quantised weights: each weight is read and unpacked once for up to
// four rows. Rounding to 16 bits in groups of 32 changes less than keeping activations in f16 would.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rounded_rows_host.hpp"

#if defined(__AVX2__)

namespace {

/// Bytes of 32 weights, on average.
template <weight_format Format>
constexpr std::int64_t group_bytes_of = block_bytes(Format) * group / block_elements(Format);

/// The six-bit scales and offsets of four groups of a q4_k or q5_k block, scale after offset after scale.
SWITCHYARD_INLINE __m256 six_bit_pairs(const std::uint8_t* block, std::int64_t within) {
  const auto four_bytes = [&](std::int64_t at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, block + 4 + at, sizeof bits);
    return bits;
  };
  std::uint32_t scales = four_bytes(0);
  std::uint32_t offsets = four_bytes(4);
  if (within == 0) {
    scales &= 0x3f3f3f3fU;
    offsets &= 0x3f3f3f3fU;
  } else {
    const std::uint32_t low = four_bytes(8);
    scales = (low & 0x0f0f0f0fU) | (scales >> 2 & 0x30303030U);
    offsets = (low >> 4 & 0x0f0f0f0fU) | (offsets >> 2 & 0x30303030U);
  }
  const __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(static_cast<std::int32_t>(scales)),
                                          _mm_cvtsi32_si128(static_cast<std::int32_t>(offsets)));
  std::int32_t halves = 0;  // of the block: its scale, and its offset's
  std::memcpy(&halves, block, sizeof halves);
  const __m256 of_block = _mm256_cvtph_ps(_mm_set1_epi32(halves));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
                       _mm256_mul_ps(of_block, _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1)));
}

/// The factors of `Count` groups from `at` on: scale, offset, scale, offset, ...; zeros behind them.
template <weight_format Format, std::size_t Count>
SWITCHYARD_INLINE __m256 factor_pairs(const group_of<Format>& at) {
  if constexpr (Format == weight_format::q4_k || Format == weight_format::q5_k) {
    return six_bit_pairs(at.block, at.within);
  } else if constexpr (Format == weight_format::q6_k) {
    const float scale = half_at(at.block + 208);
    return _mm256_setr_ps(scale, 0, scale, 0, scale, 0, scale, 0);
  } else if constexpr (Format == weight_format::mxfp4) {
    std::array<float, factor_groups> scales{};
    unroll<Count>([&](auto i) __attribute__((always_inline)) {
      scales[i] = half_of_power(at.block[i() * block_bytes(Format)]);
    });
    return _mm256_setr_ps(scales[0], 0, scales[1], 0, scales[2], 0, scales[3], 0);
  } else {
    std::array<std::int32_t, factor_groups> bits{};  // a scale, and behind it q4_1's or q5_1's offset
    unroll<Count>([&](auto i) __attribute__((always_inline)) {
      const std::uint8_t* const from = at.block + i() * block_bytes(Format);
      if constexpr (Format == weight_format::q4_1 || Format == weight_format::q5_1) {
        std::memcpy(&bits[i], from, sizeof bits[i]);
      } else {
        std::uint16_t half = 0;
        std::memcpy(&half, from, sizeof half);
        bits[i] = half;
      }
    });
    const __m256 pairs = _mm256_cvtph_ps(_mm_setr_epi32(bits[0], bits[1], bits[2], bits[3]));
    if constexpr (Format != weight_format::q4_0 && Format != weight_format::q5_0) return pairs;
    constexpr float zero = Format == weight_format::q4_0 ? -8 : -16;
    return _mm256_fmadd_ps(_mm256_moveldup_ps(pairs), _mm256_setr_ps(0, zero, 0, zero, 0, zero, 0, zero),
                           pairs);
  }
}

/// The factors of `Count` groups of activations; zeros behind them. What follows in memory is the next row's,
/// and may be NaN.
template <std::size_t Count>
SWITCHYARD_INLINE __m256 activation_factors(const group_factors* at) {
  static_assert(Count == factor_groups || Count == 1);
  if constexpr (Count == factor_groups) return _mm256_loadu_ps(&at->scale);
  const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
  return _mm256_zextps128_ps256(_mm_castsi128_ps(one));
}

/// `Outputs` outputs of `Rows` rows: together four sums or fewer, so that additions need not wait for each
/// other and registers suffice. `weights(i)` is the row of weights of output i, and `ahead` the distance in
/// bytes to those of the next call, which are fetched early: processors do not follow rows this short.
template <weight_format Format, std::size_t Rows, std::size_t Outputs, class WeightRow>
SWITCHYARD_INLINE void dot_rows_int16(WeightRow weights, const rounded_rows<std::int16_t>& x,
                                      std::int64_t first_row, float* out, std::int64_t out_stride,
                                      std::int64_t ahead) {
  constexpr std::size_t count = Rows * Outputs;
  std::array<eight_floats, count> sums{};
  std::array<eight_floats, count> offsets{};  // in the odd lanes
  std::array<const void*, Outputs> rows{};
  for (std::size_t i = 0; i < Outputs; ++i) rows[i] = weights(i);
  const auto add_groups = [&](std::int64_t first, auto groups_here) __attribute__((always_inline)) {
    alignas(32) std::array<std::array<float, 2 * factor_groups>, count> scaled;
    unroll<Outputs>([&](auto output) __attribute__((always_inline)) {
      const group_of<Format> at_group{rows[output], first};
      const __m256 of_weights = factor_pairs<Format, groups_here()>(at_group);
      const auto* const next =
          static_cast<const char*>(rows[output]) + first * group_bytes_of<Format> + ahead;
      unroll<(factor_groups * group_bytes_of<Format> + 63) / 64>([&](
          auto line) __attribute__((always_inline)) { _mm_prefetch(next + line() * 64, _MM_HINT_T0); });
      unroll<Rows>([&](auto row) __attribute__((always_inline)) {
        const std::int64_t at = (first_row + static_cast<std::int64_t>(row())) * x.groups + first;
        const __m256 product = _mm256_mul_ps(of_weights, activation_factors<groups_here()>(x.factors + at));
        offsets[output * Rows + row] += product;
        _mm256_store_ps(scaled[output * Rows + row].data(), product);
      });
    });
    unroll<groups_here()>([&](auto i) __attribute__((always_inline)) {
      unroll<Outputs>([&](auto output) __attribute__((always_inline)) {
        const group_of<Format> at_group{rows[output], first};
        const short_weights w = shorts_of<Format, i()>(at_group);
        unroll<Rows>([&](auto row) __attribute__((always_inline)) {
          constexpr std::size_t at = output() * Rows + row();
          const std::int64_t index = (first_row + static_cast<std::int64_t>(row())) * x.groups + first +
                                     static_cast<std::int64_t>(i());
          const std::int16_t* const values = x.values + index * group;
          const __m256i products = _mm256_add_epi32(_mm256_madd_epi16(w.first, load_wide(values)),
                                                    _mm256_madd_epi16(w.second, load_wide(values + 16)));
          const __m256 scale = _mm256_broadcast_ss(scaled[at].data() + 2 * i());
          sums[at] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, sums[at]);
        });
      });
    });
  };
  std::int64_t first = 0;
  for (; first + factor_groups <= x.groups; first += factor_groups)
    add_groups(first, std::integral_constant<std::size_t, factor_groups>{});
  if constexpr (block_elements(Format) < factor_groups * group) {
    for (; first < x.groups; ++first) add_groups(first, std::integral_constant<std::size_t, 1>{});
  }
  unroll<count>([&](auto i) __attribute__((always_inline)) {
    if constexpr (has_offsets<Format>) sums[i] += _mm256_blend_ps(offsets[i], _mm256_setzero_ps(), 0x55);
    out[static_cast<std::int64_t>(i() % Rows) * out_stride + static_cast<std::int64_t>(i() / Rows)] =
        sum_lanes(sums[i]);
  });
}

}  // namespace

#endif
