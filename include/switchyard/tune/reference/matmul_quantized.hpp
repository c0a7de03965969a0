// SPDX-License-Identifier: MIT
// A linear layer with quantised weights as its definition reads, in double precision. Slow and plain on
// purpose.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// Row `row` of out from output `first` on, `count` of them.
[[nodiscard]] inline std::vector<matmul_value> matmul_quantized(
    const operators::matmul_quantized::arguments& a, std::int64_t row, std::int64_t first,
    std::int64_t count) {
  constexpr std::int64_t group = 32;
  const double most = a.int8_activations ? 127 : 32767;
  std::vector<double> x(static_cast<std::size_t>(a.in_features));
  std::vector<double> step(x.size());  // between neighbouring integers, in the group of an element
  for (std::int64_t k = 0; k < a.in_features; ++k)
    x[static_cast<std::size_t>(k)] = load(a.dtype, a.x, row * a.x_stride_row + k);
  for (std::size_t begin = 0; begin < x.size(); begin += group) {
    double largest = 0;
    const std::size_t end = std::min(begin + group, x.size());
    for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(x[k]));
    for (std::size_t k = begin; k < end; ++k) step[k] = largest / most;
  }
  std::vector<matmul_value> out;
  for (std::int64_t n = first; n < first + count; ++n) {
    const auto* const weights = static_cast<const std::uint8_t*>(a.w) + n * a.w_row_bytes;
    matmul_value sum{a.bias != nullptr ? static_cast<double>(a.bias[n]) : 0, 0, 0};
    sum.magnitude = std::abs(sum.value);
    for (std::int64_t k = 0; k < a.in_features; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double w = weight_at(a.weights, weights, k);
      sum.value += w * x[at];
      sum.magnitude += std::abs(w * x[at]);
      sum.deviation += w * w * step[at] * step[at] / 12;  // a uniform error of one step
    }
    sum.deviation = std::sqrt(sum.deviation);
    out.push_back(sum);
  }
  return out;
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
