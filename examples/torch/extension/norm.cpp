// SPDX-License-Identifier: MIT
// rms_norm and layer_norm, which has a mean and a bias besides, and their backwards.
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>

#include "invocation.hpp"
#include "op_options.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

/// (out, residual_out, rstd), or (out, residual_out, mean, rstd).
template <class Operator>
auto norm(op_options<Operator>& given, const Tensor& x) {
  using options = typename Operator::options;
  constexpr bool is_centred = requires(options with) {
    with.mean;
  };
  const invocation call{Operator::name.data(), x};
  const rows of{call, x};
  const bool has_residual = given.template tensor<&options::residual>().has_value();
  const bool with_statistics = given.template wants<&options::rstd>();
  Tensor out = of.empty(dtype_of(x));
  Tensor residual_out = has_residual ? of.empty(dtype_of(x)) : nothing();
  Tensor mean = with_statistics && is_centred ? of.empty_per_row() : nothing();
  Tensor rstd = with_statistics ? of.empty_per_row() : nothing();
  if (!of.is_empty()) {
    const Tensor in = of.fit(x, "x");
    options with = given.bind(call, of);
    if (has_residual) with.residual_out = of.view(residual_out, "residual_out");
    if (with_statistics) {
      with.rstd = of.view_per_row(rstd, "rstd");
      if constexpr (is_centred) with.mean = of.view_per_row(mean, "mean");
    }
    call.run<Operator>(Operator::call(of.view(in, "x"), of.view(out, "out"), with));
  }
  if constexpr (is_centred) {
    return std::tuple{out, residual_out, mean, rstd};
  } else {
    return std::tuple{out, residual_out, rstd};
  }
}

/// (grad_x, grad_weight), or (grad_x, grad_weight, grad_bias). `statistics` are those of the forward.
template <class Operator, class... Statistic>
auto norm_backward(op_options<Operator>& given, const Tensor& grad_out, const Tensor& h,
                   const Statistic&... statistics) {
  using options = typename Operator::options;
  constexpr bool is_centred = requires(options with) {
    with.grad_beta;
  };
  const invocation call{Operator::name.data(), h};
  const rows of{call, h};
  const optional_tensor& weight = given.template tensor<&options::gamma>();
  const auto empty_weight = [&](bool is_wanted) {
    if (!is_wanted) return nothing();
    Tensor out = call.empty({of.columns()}, dtype_of(weight.has_value() ? *weight : h));
    if (of.is_empty()) torch::stable::zero_(out);
    return out;
  };
  const bool wants_weight = given.template wants<&options::grad_gamma>();
  bool wants_bias = false;
  if constexpr (is_centred) wants_bias = given.template wants<&options::grad_beta>();
  Tensor grad_x = of.empty(dtype_of(h));
  Tensor grad_weight = empty_weight(wants_weight);
  Tensor grad_bias = empty_weight(wants_bias);
  if (!of.is_empty()) {
    const Tensor gradient = of.fit(grad_out, "grad_out");
    const Tensor saved = of.fit(h, "h");
    options with = given.bind(call, of);
    if (wants_weight) with.grad_gamma = call.view(grad_weight, "grad_weight");
    if constexpr (is_centred) {
      if (wants_bias) with.grad_beta = call.view(grad_bias, "grad_bias");
    }
    call.run<Operator>(Operator::call(of.view(gradient, "grad_out"), of.view(saved, "h"),
                                      of.view_per_row(statistics, "a statistic")...,
                                      of.view(grad_x, "grad_x"), with));
  }
  if constexpr (is_centred) {
    return std::tuple{grad_x, grad_weight, grad_bias};
  } else {
    return std::tuple{grad_x, grad_weight};
  }
}

template <class Operator, class... Statistic>
using backward_kernel = op_kernel<Operator, &norm_backward<Operator, Statistic...>>;

SWITCHYARD_TORCH_OP(rms_norm, "Tensor x", "Tensor out, Tensor residual_out, Tensor rstd",
                    op_kernel<ops::rms_norm, &norm<ops::rms_norm>>)
SWITCHYARD_TORCH_OP(layer_norm, "Tensor x", "Tensor out, Tensor residual_out, Tensor mean, Tensor rstd",
                    op_kernel<ops::layer_norm, &norm<ops::layer_norm>>)
SWITCHYARD_TORCH_OP(rms_norm_backward, "Tensor grad_out, Tensor h, Tensor rstd",
                    "Tensor grad_x, Tensor grad_weight", backward_kernel<ops::rms_norm_backward, Tensor>)
SWITCHYARD_TORCH_OP(layer_norm_backward, "Tensor grad_out, Tensor h, Tensor mean, Tensor rstd",
                    "Tensor grad_x, Tensor grad_weight, Tensor grad_bias",
                    backward_kernel<ops::layer_norm_backward, Tensor, Tensor>)

}  // namespace

}  // namespace switchyard_torch
