// SPDX-License-Identifier: MIT
// Many rows of 8-bit activations times weights of four or five bits: the weights of 16 outputs are unpacked
// to bytes once, in an order in which a lane of 32 bits holds four columns of one output, so that sums over
// columns stay within a lane.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rounded_rows_host.hpp"

#if defined(__AVX2__)

namespace {

/// Steps of two products of a byte of weights and one of activations, at most 127, whose sums fit 16 bits: 16
/// products of 15 * 127, or eight of 31 * 127.
template <weight_format Format>
constexpr std::int64_t steps_in_16_bits =
    Format == weight_format::q4_0 || Format == weight_format::q4_1 || Format == weight_format::q4_k ? 8 : 4;

/// For each group of 32 columns: 8 steps of [16 outputs][4 columns] bytes, then 16 scales, then 16 offsets.
struct int8_panel {
  static constexpr std::int64_t outputs = 16;
  static constexpr std::int64_t steps = group / 4;
  static constexpr std::int64_t weight_bytes = group * outputs;
  static constexpr std::int64_t stride = weight_bytes + 2 * outputs * 4;

  std::byte* memory;
  std::int64_t groups;

  template <weight_format Format, class WeightRow>
  void fill(WeightRow weight_row, std::int64_t count) const {
    if (count < outputs) std::memset(memory, 0, static_cast<std::size_t>(groups * stride));
    for (std::int64_t n = 0; n < count; ++n) {
      const void* const row = weight_row(n);
      for (std::int64_t g = 0; g < groups; ++g) {
        const group_of<Format> at{row, g};
        factors by = factors_of(at);
        if constexpr (Format == weight_format::mxfp4) by.offset = -mxfp4_zero * by.scale;
        std::byte* const to = memory + g * stride;
        alignas(32) std::array<std::uint32_t, steps> four_columns;
        _mm256_store_si256(reinterpret_cast<__m256i*>(four_columns.data()), bytes_of(at));
        for (std::int64_t step = 0; step < steps; ++step)
          std::memcpy(to + (step * outputs + n) * 4, &four_columns[static_cast<std::size_t>(step)], 4);
        std::memcpy(to + weight_bytes + n * 4, &by.scale, 4);
        std::memcpy(to + weight_bytes + (outputs + n) * 4, &by.offset, 4);
      }
    }
  }

  /// Results of `Rows` rows, [Rows][outputs].
  template <weight_format Format, std::size_t Rows>
  SWITCHYARD_INLINE void multiply(const rounded_rows<std::int8_t>& x, std::int64_t first_row,
                                  float* out) const {
    std::array<std::array<eight_floats, 2>, Rows> sums{};
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::byte* const from = memory + g * stride;
      std::array<std::array<four_longs, 2>, Rows> totals{};
      unroll<steps / steps_in_16_bits<Format>>([&](auto part) __attribute__((always_inline)) {
        std::array<std::array<four_longs, 2>, Rows> pairs{};
        unroll<steps_in_16_bits<Format>>([&](auto i) __attribute__((always_inline)) {
          constexpr auto step = static_cast<std::int64_t>(part() * steps_in_16_bits<Format> + i());
          const auto* const weights = reinterpret_cast<const __m256i*>(from + step * outputs * 4);
          const __m256i w0 = _mm256_loadu_si256(weights);
          const __m256i w1 = _mm256_loadu_si256(weights + 1);
          unroll<Rows>([&](auto row) __attribute__((always_inline)) {
            std::int32_t four = 0;
            std::memcpy(
                &four,
                x.values + ((first_row + static_cast<std::int64_t>(row())) * x.groups + g) * group + step * 4,
                4);
            const __m256i columns = _mm256_set1_epi32(four);
            pairs[row][0] = _mm256_add_epi16(pairs[row][0], _mm256_maddubs_epi16(w0, columns));
            pairs[row][1] = _mm256_add_epi16(pairs[row][1], _mm256_maddubs_epi16(w1, columns));
          });
        });
        unroll<Rows>([&](auto row) __attribute__((always_inline)) {
          unroll<2>([&](auto half) __attribute__((always_inline)) {
            const __m256i sums_of_pairs = _mm256_madd_epi16(pairs[row][half], _mm256_set1_epi16(1));
            totals[row][half] =
                part() == 0 ? sums_of_pairs : _mm256_add_epi32(totals[row][half], sums_of_pairs);
          });
        });
      });
      const auto* const scales = reinterpret_cast<const float*>(from + weight_bytes);
      unroll<Rows>([&](auto row) __attribute__((always_inline)) {
        const std::int64_t index = (first_row + static_cast<std::int64_t>(row())) * x.groups + g;
        const __m256 scale = _mm256_set1_ps(x.factors[index].scale);
        const __m256 sum = _mm256_set1_ps(x.factors[index].sum);
        unroll<2>([&](auto half) __attribute__((always_inline)) {
          const __m256 products = _mm256_cvtepi32_ps(totals[row][half]);
          const __m256 by = _mm256_mul_ps(_mm256_loadu_ps(scales + half * 8), scale);
          sums[row][half] = _mm256_fmadd_ps(products, by, sums[row][half]);
          sums[row][half] =
              _mm256_fmadd_ps(_mm256_loadu_ps(scales + outputs + half * 8), sum, sums[row][half]);
        });
      });
    }
    unroll<Rows>([&](auto row) __attribute__((always_inline)) {
      _mm256_storeu_ps(out + row() * outputs, sums[row][0]);
      _mm256_storeu_ps(out + row() * outputs + 8, sums[row][1]);
    });
  }
};

}  // namespace

#endif
