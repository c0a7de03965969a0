// Calls of gated activations and their backward pass, for measuring. Tensors are dense.
#pragma once

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

template <>
struct workload<operators::gated_activation> : detail::row_counts {
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
      detail::want_row(values, row * a.out_stride_row, reference::gated_activation(one), 1);
    }
  }
};

template <>
struct workload<operators::gated_activation_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::gated_activation_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation_backward> made{driver, want, seed};
    using op = operators::gated_activation_backward;
    const op::arguments others{.function = want.as("function", operators::gated_function::silu)};
    const tensor grad_out = made.input();
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
