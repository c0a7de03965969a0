// SPDX-License-Identifier: MIT
// Calls of gated activations and their backward pass, for measuring.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/activation.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/rows.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

namespace detail {

/// What gate and up of a row are worth together at the most: functions that nearly cancel to 0 are off by a
/// share of it.
template <class Arguments>
[[nodiscard]] double gated_magnitude(const Arguments& one) {
  const void* const up = one.packed() ? moved(one.gate, one.dtype, one.columns) : one.up;
  return std::max(largest(one.gate, one.dtype, one.columns), 1e-3) *
         std::max(largest(up, one.dtype, one.columns), 1e-3);
}

}  // namespace detail

template <>
struct workload<operators::gated_activation> : detail::row_counts, detail::row_variations {
  [[nodiscard]] static prepared_call<operators::gated_activation> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation> made{driver, want, seed};
    using op = operators::gated_activation;
    const op::arguments others{.function = want.as("function", operators::gated_function::silu)};
    if (want.flag("packed")) {
      const tensor both = made.input(2);
      return made.finish(op::call_packed(made.output(), both, others), 6);
    }
    const tensor gate = made.input();
    const tensor up = made.input();
    return made.finish(op::call(gate, up, made.output(), others), 6);
  }

  static void expect(const operators::gated_activation::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.gate = detail::moved(a.gate, a.dtype, row * a.gate_stride_row);
      one.up = detail::moved(a.up, a.dtype, row * a.up_stride_row);
      detail::want_row(values, row * a.out_stride_row, reference::gated_activation(one),
                       detail::gated_magnitude(one));
    }
  }
};

template <>
struct workload<operators::gated_activation_backward> : detail::row_counts, detail::row_variations {
  [[nodiscard]] static prepared_call<operators::gated_activation_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation_backward> made{driver, want, seed};
    using op = operators::gated_activation_backward;
    const op::arguments others{.function = want.as("function", operators::gated_function::silu)};
    const tensor grad_out = made.usual_input();
    if (want.flag("packed")) {
      const tensor both = made.input(2);
      return made.finish(op::call_packed(grad_out, both, made.output(2), others), 12);
    }
    const tensor gate = made.input();
    const tensor up = made.input();
    const tensor grad_gate = made.output();
    return made.finish(op::call(grad_out, gate, up, grad_gate, made.output(), others), 12);
  }

  static void expect(const operators::gated_activation_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& gates = out.of("grad_gate", a.grad_gate, a.dtype);
    auto& ups = a.packed() ? gates : out.of("grad_up", a.grad_up, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.grad_out = detail::moved(a.grad_out, a.dtype, row * a.grad_out_stride_row);
      one.gate = detail::moved(a.gate, a.dtype, row * a.gate_stride_row);
      one.up = detail::moved(a.up, a.dtype, row * a.up_stride_row);
      const auto wanted = reference::gated_activation_backward(one);
      // The slopes are 1.2 at the most; terms of theirs that cancel are as large as the gate.
      const double magnitude = detail::gated_magnitude(one) + detail::largest(wanted.gate);
      detail::want_row(gates, row * a.grad_gate_stride_row, wanted.gate, magnitude);
      const std::int64_t first =
          a.packed() ? row * a.grad_gate_stride_row + a.columns : row * a.grad_up_stride_row;
      detail::want_row(ups, first, wanted.up, std::max(detail::largest(one.gate, a.dtype, a.columns), 1e-3));
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
