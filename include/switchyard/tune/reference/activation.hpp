// SPDX-License-Identifier: MIT
// Gated activations and their gradients as their definitions read, in double precision. Slow and plain on
// purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// What the backward writes: [rows][columns] each.
struct gated_gradients {
  std::vector<double> gate;
  std::vector<double> up;
};

struct activation_value {
  double value = 0;
  double slope = 0;
};

/// activation(x) and its derivative.
[[nodiscard]] inline activation_value activation(operators::gated_function function, double x) {
  constexpr double pi = 3.14159265358979323846;
  switch (function) {
    case operators::gated_function::silu: {
      const double share = 1 / (1 + std::exp(-x));
      return {x * share, share * (1 + x * (1 - share))};
    }
    case operators::gated_function::gelu: {
      const double share = std::erfc(-x / std::sqrt(2.0)) / 2;
      return {x * share, share + x * std::exp(-x * x / 2) / std::sqrt(2 * pi)};
    }
    case operators::gated_function::gelu_tanh: {
      const double root = std::sqrt(2 / pi);
      const double tanh = std::tanh(root * (x + 0.044715 * x * x * x));
      return {x / 2 * (1 + tanh),
              (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x)};
    }
  }
  return {};
}

/// [rows][columns].
[[nodiscard]] inline std::vector<double> gated_activation(const operators::gated_activation::arguments& a) {
  std::vector<double> result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const double gate = load(a.dtype, a.gate, row * a.gate_stride_row + c);
      const double up = a.packed() ? load(a.dtype, a.gate, row * a.gate_stride_row + a.columns + c)
                                   : load(a.dtype, a.up, row * a.up_stride_row + c);
      result.push_back(activation(a.function, gate).value * up);
    }
  }
  return result;
}

[[nodiscard]] inline gated_gradients gated_activation_backward(
    const operators::gated_activation_backward::arguments& a) {
  gated_gradients result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const double gradient = load(a.dtype, a.grad_out, row * a.grad_out_stride_row + c);
      const double gate = load(a.dtype, a.gate, row * a.gate_stride_row + c);
      const double up = a.packed() ? load(a.dtype, a.gate, row * a.gate_stride_row + a.columns + c)
                                   : load(a.dtype, a.up, row * a.up_stride_row + c);
      const activation_value at = activation(a.function, gate);
      result.gate.push_back(gradient * up * at.slope);
      result.up.push_back(gradient * at.value);
    }
  }
  return result;
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
