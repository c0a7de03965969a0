// SPDX-License-Identifier: MIT
// Softmax and its gradient as their definitions read, in double precision. Slow and plain on purpose.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// [rows][columns].
[[nodiscard]] inline std::vector<double> softmax(const operators::softmax::arguments& a) {
  std::vector<double> result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::vector<double> t;
    for (std::int64_t c = 0; c < a.columns; ++c) {
      t.push_back(static_cast<double>(a.scale) * load(a.dtype, a.x, row * a.x_stride_row + c));
    }
    const double top = *std::max_element(t.begin(), t.end());
    double sum = 0;
    for (double& value : t) sum += value = std::exp(value - top);
    for (const double value : t) result.push_back(value / sum);
  }
  return result;
}

/// [rows][columns].
[[nodiscard]] inline std::vector<double> softmax_backward(const operators::softmax_backward::arguments& a) {
  std::vector<double> result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto gradient = [&](std::int64_t c) {
      return load(a.dtype, a.grad_out, row * a.grad_out_stride_row + c);
    };
    const auto value = [&](std::int64_t c) { return load(a.dtype, a.out, row * a.out_stride_row + c); };
    double sum = 0;
    for (std::int64_t c = 0; c < a.columns; ++c) sum += gradient(c) * value(c);
    for (std::int64_t c = 0; c < a.columns; ++c) {
      result.push_back(static_cast<double>(a.scale) * value(c) * (gradient(c) - sum));
    }
  }
  return result;
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
