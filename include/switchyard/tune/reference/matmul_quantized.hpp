// SPDX-License-Identifier: MIT
// A linear layer with quantised weights as its definition reads, in double precision. Slow and plain on
// purpose.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/tune/reference/element.hpp>
#include <switchyard/tune/reference/weights.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

struct matmul_value {
  double value;
  double magnitude;  ///< sum of |x w|, and |bias|
  double deviation;  ///< root-mean-square of what rounding x in groups of 32 changes: to 8 bits where they
                     ///< are allowed, else to 16
};

/// A row of x, and the distance between neighbouring integers that each element may be rounded to.
struct matmul_row {
  std::vector<double> x;
  std::vector<double> step;

  matmul_row(const operators::matmul_quantized::arguments& a, std::int64_t row)
      : x(static_cast<std::size_t>(a.in_features)), step(x.size()) {
    constexpr std::size_t group = 32;
    const double most = a.int8_activations ? 127 : 32767;
    for (std::int64_t k = 0; k < a.in_features; ++k)
      x[static_cast<std::size_t>(k)] = load(a.dtype, a.x, row * a.x_stride_row + k);
    for (std::size_t begin = 0; begin < x.size(); begin += group) {
      double largest = 0;
      const std::size_t end = std::min(begin + group, x.size());
      for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(x[k]));
      for (std::size_t k = begin; k < end; ++k) step[k] = largest / most;
    }
  }
};

/// Rows `rows` of out, of each `count` outputs from `first` on.
[[nodiscard]] inline std::vector<std::vector<matmul_value>> matmul_quantized(
    const operators::matmul_quantized::arguments& a, std::span<const std::int64_t> rows, std::int64_t first,
    std::int64_t count) {
  std::vector<matmul_row> activations;
  for (const std::int64_t row : rows) activations.emplace_back(a, row);
  std::vector<std::vector<matmul_value>> out(rows.size());
  std::vector<double> weights(static_cast<std::size_t>(a.in_features));
  for (std::int64_t n = first; n < first + count; ++n) {
    const auto* const from = static_cast<const std::uint8_t*>(a.w) + n * a.w_row_bytes;
    for (std::int64_t k = 0; k < a.in_features; ++k)
      weights[static_cast<std::size_t>(k)] = weight_at(a.weights, from, k);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto& [x, step] = activations[row];
      matmul_value sum{a.bias != nullptr ? static_cast<double>(a.bias[n]) : 0, 0, 0};
      sum.magnitude = std::abs(sum.value);
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const double w = weights[k];
        sum.value += w * x[k];
        sum.magnitude += std::abs(w * x[k]);
        sum.deviation += w * w * step[k] * step[k] / 12;  // a uniform error of one step
      }
      sum.deviation = std::sqrt(sum.deviation);
      out[row].push_back(sum);
    }
  }
  return out;
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
