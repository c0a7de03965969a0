// SPDX-License-Identifier: MIT
// Normalisations and their gradients as their definitions read, in double precision. Slow and plain on
// purpose.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// What a norm's forward writes, in f64: [rows][columns], and a value a row.
struct norm_result {
  std::vector<double> out;
  std::vector<double> h;  ///< the rounded sum of x and residual
  std::vector<double> mean;
  std::vector<double> rstd;
};

/// What a norm's backward writes.
struct norm_gradients {
  std::vector<double> x;
  std::vector<double> gamma;
  std::vector<double> beta;
};

namespace detail {

inline double weight(const void* data, dtype type, std::int64_t column, double absent, float offset) {
  return data == nullptr ? absent : load(type, data, column) + static_cast<double>(offset);
}

template <bool Centred, class Arguments>
norm_result norm_forward(const Arguments& a, const void* beta) {
  const auto columns = static_cast<std::size_t>(a.columns);
  norm_result result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::vector<double> h(columns);
    double mean = 0;
    for (std::int64_t c = 0; c < a.columns; ++c) {
      double value = load(a.dtype, a.x, row * a.x_stride_row + c);
      if (a.residual != nullptr) {
        value = rounded(a.dtype, value + load(a.dtype, a.residual, row * a.residual_stride_row + c));
      }
      h[static_cast<std::size_t>(c)] = value;
      if (Centred) mean += value / static_cast<double>(a.columns);
    }
    double variance = 0;
    for (const double value : h) variance += (value - mean) * (value - mean) / static_cast<double>(a.columns);
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(a.epsilon));
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const double factor = weight(a.gamma, a.gamma_dtype, c, 1, a.gamma_offset);
      result.out.push_back((h[static_cast<std::size_t>(c)] - mean) * rstd * factor +
                           weight(beta, a.gamma_dtype, c, 0, 0.0F));
    }
    result.h.insert(result.h.end(), h.begin(), h.end());
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

template <class Arguments>
norm_gradients norm_backward(const Arguments& a, const float* means) {
  const auto columns = static_cast<std::size_t>(a.columns);
  norm_gradients result;
  result.gamma.assign(columns, 0);
  result.beta.assign(columns, 0);
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const double rstd = static_cast<double>(a.rstd[row]);
    const double mean = means == nullptr ? 0 : static_cast<double>(means[row]);
    std::vector<double> normal(columns);
    std::vector<double> weighted(columns);
    double slope = 0;
    double level = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const auto column = static_cast<std::int64_t>(c);
      const double gradient = load(a.dtype, a.grad_out, row * a.grad_out_stride_row + column);
      normal[c] = (load(a.dtype, a.h, row * a.h_stride_row + column) - mean) * rstd;
      weighted[c] = gradient * weight(a.gamma, a.gamma_dtype, column, 1, a.gamma_offset);
      slope += weighted[c] * normal[c] / static_cast<double>(a.columns);
      if (means != nullptr) level += weighted[c] / static_cast<double>(a.columns);
      result.gamma[c] += gradient * normal[c];
      result.beta[c] += gradient;
    }
    for (std::size_t c = 0; c < columns; ++c) {
      double value = rstd * (weighted[c] - level - normal[c] * slope);
      if (a.grad_residual != nullptr) {
        value +=
            load(a.dtype, a.grad_residual, row * a.grad_residual_stride_row + static_cast<std::int64_t>(c));
      }
      result.x.push_back(value);
    }
  }
  return result;
}

}  // namespace detail

[[nodiscard]] inline norm_result rms_norm(const operators::rms_norm::arguments& a) {
  return detail::norm_forward<false>(a, nullptr);
}
[[nodiscard]] inline norm_result layer_norm(const operators::layer_norm::arguments& a) {
  return detail::norm_forward<true>(a, a.beta);
}
[[nodiscard]] inline norm_gradients rms_norm_backward(const operators::rms_norm_backward::arguments& a) {
  return detail::norm_backward(a, nullptr);
}
[[nodiscard]] inline norm_gradients layer_norm_backward(const operators::layer_norm_backward::arguments& a) {
  return detail::norm_backward(a, a.mean);
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
