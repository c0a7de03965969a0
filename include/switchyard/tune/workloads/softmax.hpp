// SPDX-License-Identifier: MIT
// Calls of softmax and its backward pass, for measuring. Tensors are dense.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/softmax.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/rows.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::softmax> : detail::row_counts, detail::row_variations {
  [[nodiscard]] static prepared_call<operators::softmax> make(const std::shared_ptr<device_driver>& driver,
                                                              const request& want, std::uint64_t seed) {
    detail::row_call<operators::softmax> made{driver, want, seed};
    const tensor x = made.input();
    return made.finish(
        operators::softmax::call(x, made.output(), {.scale = want.varied().options ? 0.7F : 1.0F}), 4);
  }

  static void expect(const operators::softmax::arguments& a, const row_sample& sample, expectation& out) {
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.x = detail::moved(a.x, a.dtype, row * a.x_stride_row);
      const auto wanted = reference::softmax(one);
      // A logit that is large is off by its last place, and the exponential by as large a share.
      const double top = std::abs(static_cast<double>(a.scale)) * detail::largest(one.x, a.dtype, a.columns);
      const double magnitude = std::max(detail::largest(wanted), 1e-3);
      detail::want_row(values, row * a.out_stride_row, wanted, magnitude * std::max(1.0, top / 8));
    }
  }
};

template <>
struct workload<operators::softmax_backward> : detail::row_counts, detail::row_variations {
  [[nodiscard]] static prepared_call<operators::softmax_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::softmax_backward> made{driver, want, seed};
    const tensor grad_out = made.input();
    const tensor out = made.usual_input();
    return made.finish(operators::softmax_backward::call(grad_out, out, made.output(),
                                                         {.scale = want.varied().options ? 0.7F : 1.0F}),
                       4);
  }

  static void expect(const operators::softmax_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("grad_x", a.grad_x, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.grad_out = detail::moved(a.grad_out, a.dtype, row * a.grad_out_stride_row);
      one.out = detail::moved(a.out, a.dtype, row * a.out_stride_row);
      const auto wanted = reference::softmax_backward(one);
      const double top = detail::largest(one.grad_out, a.dtype, a.columns);
      const double least = (0.25 + 1e-3 * static_cast<double>(a.columns)) * top;
      detail::want_row(values, row * a.grad_x_stride_row, wanted, std::max(detail::largest(wanted), least));
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
