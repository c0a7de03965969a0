// Calls of gated activations and their backward pass, for measuring. Tensors are dense.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/activation.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/rows.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::gated_activation> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::gated_activation> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.function = want.as("function", operators::gated_function::silu);
    const bool packed = want.flag("packed");
    a.gate = made.input(packed ? 2 : 1);
    a.gate_stride_row = packed ? 2 * a.columns : a.columns;
    if (!packed) {
      a.up = made.input();
      a.up_stride_row = a.columns;
    }
    a.out = made.output();
    a.out_stride_row = a.columns;
    made.call.flops = 6 * static_cast<double>(made.elements());
    return std::move(made.call);
  }

  static void expect(const operators::gated_activation::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.gate = detail::moved(a.gate, a.dtype, row * a.gate_stride_row);
      one.up = detail::moved(a.up, a.dtype, row * a.up_stride_row);
      detail::want_row(values, row * a.out_stride_row, reference::gated_activation(one), 1);
    }
  }
};

template <>
struct workload<operators::gated_activation_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::gated_activation_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation_backward> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.function = want.as("function", operators::gated_function::silu);
    const bool packed = want.flag("packed");
    a.grad_out = made.input();
    a.gate = made.input(packed ? 2 : 1);
    a.grad_gate = made.output(packed ? 2 : 1);
    a.grad_out_stride_row = a.columns;
    a.gate_stride_row = a.grad_gate_stride_row = packed ? 2 * a.columns : a.columns;
    if (!packed) {
      a.up = made.input();
      a.grad_up = made.output();
      a.up_stride_row = a.grad_up_stride_row = a.columns;
    }
    made.call.flops = 12 * static_cast<double>(made.elements());
    return std::move(made.call);
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
      detail::want_row(gates, row * a.grad_gate_stride_row, wanted.gate, 1);
      const std::int64_t first =
          a.packed() ? row * a.grad_gate_stride_row + a.columns : row * a.grad_up_stride_row;
      detail::want_row(ups, first, wanted.up, 1);
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
