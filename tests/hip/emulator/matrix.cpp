// SPDX-License-Identifier: MIT
#include "matrix.hpp"

#include <algorithm>
#include <array>

namespace emulator {

namespace {

constexpr layout wmma = emulated == family::rdna4 ? layout::wmma_of_rdna4 : layout::wmma;
constexpr matrix_kind known[] = {
    {"V_MFMA_F32_32X32X8_F16", 32, 8, element::f16},
    {"V_MFMA_F32_16X16X16_F16", 16, 16, element::f16},
    {"V_MFMA_F32_32X32X8_BF16", 32, 8, element::bf16},
    {"V_MFMA_F32_16X16X16_BF16", 16, 16, element::bf16},
    {"V_MFMA_F32_32X32X16_F16", 32, 16, element::f16},
    {"V_MFMA_F32_16X16X32_F16", 16, 32, element::f16},
    {"V_MFMA_F32_32X32X16_BF16", 32, 16, element::bf16},
    {"V_MFMA_F32_16X16X32_BF16", 16, 32, element::bf16},
    {"V_MFMA_F32_32X32X2_F32", 32, 2, element::f32},
    {"V_MFMA_F32_16X16X4_F32", 16, 4, element::f32},
    {"V_WMMA_F32_16X16X16_F16", 16, 16, element::f16, wmma},
    {"V_WMMA_F32_16X16X16_BF16", 16, 16, element::bf16, wmma},
};
constexpr unsigned max_rows = 32;
constexpr unsigned max_inner = 32;

float factor(const matrix_kind& kind, const row* of, unsigned i, unsigned k) {
  const matrix_place at = place_of_factor(kind, i, k);
  if (kind.of == element::f32) return std::bit_cast<float>(of[at.index][at.lane]);
  const auto bits = static_cast<std::uint16_t>(of[at.index / 2][at.lane] >> 16 * (at.index % 2));
  return kind.of == element::f16 ? half_to_float(bits) : float(bfloat{bits});
}

void require_repeated(const matrix_kind& kind, const row* of) {
  if (kind.as != layout::wmma) return;
  for (unsigned i = 0; i < kind.factor_registers(); ++i) {
    if (!std::equal(of[i].lane, of[i].lane + 16, of[i].lane + 16))
      throw fault{"has a factor whose lanes 16 to 31 do not repeat lanes 0 to 15"};
  }
}

}  // namespace

const matrix_kind* find_matrix_kind(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(known), std::end(known), [&](const auto& one) { return one.name == name; });
  return found == std::end(known) ? nullptr : found;
}

matrix_place place_of_factor(const matrix_kind& kind, unsigned i, unsigned k) {
  if (kind.as == layout::wmma) return {i, k};
  const unsigned of_lane = kind.inner * kind.size / lanes;
  return {i + kind.size * (k / of_lane), k % of_lane};
}

matrix_place place_of_sum(const matrix_kind& kind, unsigned m, unsigned n) {
  if (kind.as == layout::wmma) return {n + 16 * (m % 2), m / 2};
  if (kind.as == layout::wmma_of_rdna4) return {n + 16 * (m / 8), m % 8};
  const unsigned groups = 64 / kind.size;
  return {n + kind.size * (m / 4 % groups), 4 * (m / (4 * groups)) + m % 4};
}

void multiply(const matrix_kind& kind, const row* a, const row* b, const row* c, float constant, row* d) {
  require_repeated(kind, a);
  require_repeated(kind, b);
  std::array<std::array<double, max_inner>, max_rows> left;
  std::array<std::array<double, max_rows>, max_inner> right;
  for (unsigned i = 0; i < kind.size; ++i) {
    for (unsigned k = 0; k < kind.inner; ++k) {
      left[i][k] = factor(kind, a, i, k);
      right[k][i] = factor(kind, b, i, k);
    }
  }
  for (unsigned m = 0; m < kind.size; ++m) {
    // Rounded once: the hardware's order of sums, and where it rounds, are not published.
    std::array<double, max_rows> sums{};
    for (unsigned n = 0; n < kind.size; ++n) {
      const matrix_place at = place_of_sum(kind, m, n);
      sums[n] = c == nullptr ? constant : std::bit_cast<float>(c[at.index][at.lane]);
    }
    for (unsigned k = 0; k < kind.inner; ++k) {
      for (unsigned n = 0; n < kind.size; ++n) sums[n] += left[m][k] * right[k][n];
    }
    for (unsigned n = 0; n < kind.size; ++n) {
      const matrix_place at = place_of_sum(kind, m, n);
      d[at.index][at.lane] = bits_of(static_cast<float>(sums[n]));
    }
  }
}

}  // namespace emulator
