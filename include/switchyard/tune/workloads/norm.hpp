// SPDX-License-Identifier: MIT
// Calls of the norms and their backward passes, for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/norm.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/rows.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

namespace detail {

template <class Operator>
[[nodiscard]] prepared_call<Operator> make_norm(const std::shared_ptr<device_driver>& driver,
                                                const request& want, std::uint64_t seed) {
  row_call<Operator> made{driver, want, seed};
  typename Operator::options with;
  if (want.varied().options) {
    with.epsilon = 1e-3F;
    with.gamma_offset = 1;
  }
  const dtype gamma_type = want.as("gamma_dtype", made.type);
  const tensor x = made.input();
  const tensor out = made.output();
  if (want.get("with_gamma", 1) != 0) with.gamma = made.weights(gamma_type);
  if (want.flag("with_residual")) {
    with.residual = made.input();
    with.residual_out = made.output();
  }
  if (want.flag("with_rstd")) with.rstd = made.row_results();
  if constexpr (requires { with.beta; }) {
    if (want.get("with_beta", with.gamma ? 1 : 0) != 0) with.beta = made.weights(gamma_type);
    if (want.flag("with_statistics")) {
      with.mean = made.row_results();
      with.rstd = made.row_results();
    }
  }
  return made.finish(Operator::call(x, out, with), 4);
}

/// Sampled rows of a norm. The magnitude follows from the largest value once it is scaled.
template <class Arguments>
void expect_norm(const Arguments& a, const row_sample& sample, expectation& out) {
  constexpr bool centred = std::is_same_v<Arguments, operators::layer_norm::arguments>;
  auto& values = out.of("out", a.out, a.dtype);
  auto* const sums = a.residual != nullptr ? &out.of("residual_out", a.residual_out, a.dtype) : nullptr;
  auto* const rstds = a.rstd != nullptr ? &out.of("rstd", a.rstd, dtype::f32) : nullptr;
  expectation::result* means = nullptr;
  if constexpr (centred) means = a.mean != nullptr ? &out.of("mean", a.mean, dtype::f32) : nullptr;
  for (const std::int64_t row : sample.rows()) {
    Arguments one = a;
    one.rows = 1;
    one.x = moved(a.x, a.dtype, row * a.x_stride_row);
    one.residual = moved(a.residual, a.dtype, row * a.residual_stride_row);
    reference::norm_result wanted;
    if constexpr (centred) {
      wanted = reference::layer_norm(one);
    } else {
      wanted = reference::rms_norm(one);
    }
    const double rstd = wanted.rstd[0];
    const double top = largest(wanted.h);
    const double factor = 1 + std::abs(static_cast<double>(a.gamma_offset));
    want_row(values, row * a.out_stride_row, wanted.out, 2 * factor * std::max(1.0, top * rstd));
    if (sums != nullptr) want_row(*sums, row * a.residual_out_stride_row, wanted.h, top);
    const auto want = [&](expectation::result* to, double value, double of) {
      if (to != nullptr) to->want(row, value, 0x1p-23 * std::abs(value) + arithmetic_error(a.columns, of));
    };
    want(rstds, rstd,
         std::min(2 * rstd * std::max(1.0, top * rstd * top * rstd), 4 * std::max(1.0, rstd * rstd)));
    want(means, wanted.mean[0], top);
  }
}

template <class Operator>
[[nodiscard]] prepared_call<Operator> make_norm_backward(const std::shared_ptr<device_driver>& driver,
                                                         const request& want, std::uint64_t seed) {
  row_call<Operator> made{driver, want, seed};
  typename Operator::options with;
  const dtype gamma_type = want.as("gamma_dtype", made.type);
  const float spread = want.varied().spread;
  if (want.varied().options) with.gamma_offset = 1;
  const tensor grad_out = made.usual_input();
  const tensor h = made.input();
  const tensor grad_x = made.output();
  const tensor rstd = made.row_values(1 / spread);
  if (want.get("with_gamma", 1) != 0) with.gamma = made.weights(gamma_type);
  if (want.get("with_weight_gradients", 1) != 0) with.grad_gamma = made.weight_gradients(gamma_type);
  if (want.flag("with_residual")) with.grad_residual = made.usual_input();
  if constexpr (requires { with.grad_beta; }) {
    const tensor mean = made.row_values(spread);
    if (with.grad_gamma) with.grad_beta = made.weight_gradients(gamma_type);
    return made.finish(Operator::call(grad_out, h, mean, rstd, grad_x, with), 8);
  } else {
    return made.finish(Operator::call(grad_out, h, rstd, grad_x, with), 8);
  }
}

/// Sampled rows of grad_x; of the weights' gradients, which need every row, as many columns as the same work
/// allows.
template <class Arguments>
void expect_norm_backward(const Arguments& a, const row_sample& sample, expectation& out) {
  constexpr bool centred = std::is_same_v<Arguments, operators::layer_norm_backward::arguments>;
  const auto at = [&](std::int64_t row, std::int64_t column) {
    Arguments one = a;
    one.grad_out = moved(a.grad_out, a.dtype, row * a.grad_out_stride_row + column);
    one.h = moved(a.h, a.dtype, row * a.h_stride_row + column);
    one.grad_residual = moved(a.grad_residual, a.dtype, row * a.grad_residual_stride_row + column);
    one.gamma = moved(a.gamma, a.gamma_dtype, column);
    one.rstd = moved(a.rstd, row);
    if constexpr (centred) one.mean = moved(a.mean, row);
    return one;
  };
  const auto reference_of = [](const Arguments& one) {
    if constexpr (centred) {
      return reference::layer_norm_backward(one);
    } else {
      return reference::rms_norm_backward(one);
    }
  };
  auto& values = out.of("grad_x", a.grad_x, a.dtype);
  for (const std::int64_t row : sample.rows()) {
    Arguments one = at(row, 0);
    one.rows = 1;
    const double scaled = std::abs(static_cast<double>(*one.rstd));
    const double magnitude = 8 * (1 + std::abs(static_cast<double>(a.gamma_offset))) * std::max(scaled, 1e-6);
    want_row(values, row * a.grad_x_stride_row, reference_of(one).x,
             magnitude + (a.grad_residual != nullptr ? 1 : 0));
  }
  auto* const gammas = a.grad_gamma != nullptr ? &out.of("grad_gamma", a.grad_gamma, a.gamma_dtype) : nullptr;
  expectation::result* betas = nullptr;
  if constexpr (centred)
    betas = a.grad_beta != nullptr ? &out.of("grad_beta", a.grad_beta, a.gamma_dtype) : nullptr;
  if (gammas == nullptr && betas == nullptr) return;
  const auto most = std::max<std::int64_t>(
      16, static_cast<std::int64_t>(sample.rows().size()) * a.columns / std::max<std::int64_t>(a.rows, 1));
  const double over_rows = arithmetic_error(a.rows, 2 * static_cast<double>(a.rows));
  const row_sample columns{a.columns, most, 7};
  for (const std::int64_t column : columns.rows()) {
    Arguments one = at(0, column);
    one.columns = 1;  // a column's sums read no other column
    const auto wanted = reference_of(one);
    const auto want = [&](expectation::result* to, double value) {
      if (to != nullptr) to->want(column, value, unit_of(a.gamma_dtype) * std::abs(value) + over_rows);
    };
    want(gammas, wanted.gamma[0]);
    want(betas, wanted.beta[0]);
  }
}

/// Calls of a norm or of its backward, whose arguments have no x.
template <class Operator>
struct norm_workload : row_counts, row_variations {
  using arguments = typename Operator::arguments;

  [[nodiscard]] static prepared_call<Operator> make(const std::shared_ptr<device_driver>& driver,
                                                    const request& want, std::uint64_t seed) {
    if constexpr (requires(arguments a) { a.x; }) {
      return make_norm<Operator>(driver, want, seed);
    } else {
      return make_norm_backward<Operator>(driver, want, seed);
    }
  }

  static void expect(const arguments& a, const row_sample& sample, expectation& out) {
    if constexpr (requires { a.x; }) {
      expect_norm(a, sample, out);
    } else {
      expect_norm_backward(a, sample, out);
    }
  }
};

}  // namespace detail

template <>
struct workload<operators::rms_norm> : detail::norm_workload<operators::rms_norm> {};
template <>
struct workload<operators::layer_norm> : detail::norm_workload<operators::layer_norm> {};
template <>
struct workload<operators::rms_norm_backward> : detail::norm_workload<operators::rms_norm_backward> {};
template <>
struct workload<operators::layer_norm_backward> : detail::norm_workload<operators::layer_norm_backward> {};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
