// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>

#include "invocation.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor, Tensor, Tensor, Tensor> layer_norm(const Tensor& x, const optional_tensor& weight,
                                                      const optional_tensor& bias,
                                                      const optional_tensor& residual, double epsilon,
                                                      double weight_offset, bool with_statistics) {
  const invocation call{"layer_norm", x};
  const rows of{call, x};
  const std::int32_t type = dtype_of(x);
  Tensor out = of.empty(type);
  Tensor residual_out = residual.has_value() ? of.empty(type) : nothing();
  Tensor mean = with_statistics ? of.empty_per_row() : nothing();
  Tensor rstd = with_statistics ? of.empty_per_row() : nothing();
  if (of.is_empty()) return {out, residual_out, mean, rstd};
  const Tensor in = of.fit(x, "x");
  const optional_tensor added = of.fit(residual, "residual");
  ops::layer_norm::options with{.epsilon = static_cast<float>(epsilon),
                                .gamma_offset = static_cast<float>(weight_offset)};
  with.gamma = call.view(weight, "weight");
  with.beta = call.view(bias, "bias");
  if (added.has_value()) {
    with.residual = of.view(added, "residual");
    with.residual_out = of.view(residual_out, "residual_out");
  }
  if (with_statistics) {
    with.mean = of.view_per_row(mean, "mean");
    with.rstd = of.view_per_row(rstd, "rstd");
  }
  call.run<ops::layer_norm>(ops::layer_norm::call(of.view(in, "x"), of.view(out, "out"), with));
  return {out, residual_out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad_out, const Tensor& h,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const optional_tensor& weight,
                                                       const optional_tensor& grad_residual,
                                                       double weight_offset, bool with_grad_weight,
                                                       bool with_grad_bias) {
  const invocation call{"layer_norm_backward", h};
  const rows of{call, h};
  Tensor grad_x = of.empty(dtype_of(h));
  const std::int32_t weight_type = dtype_of(weight.has_value() ? *weight : h);
  Tensor grad_weight = with_grad_weight ? call.empty({of.columns()}, weight_type) : nothing();
  Tensor grad_bias = with_grad_bias ? call.empty({of.columns()}, weight_type) : nothing();
  if (of.is_empty()) {
    if (with_grad_weight) torch::stable::zero_(grad_weight);
    if (with_grad_bias) torch::stable::zero_(grad_bias);
    return {grad_x, grad_weight, grad_bias};
  }
  const Tensor gradient = of.fit(grad_out, "grad_out");
  const Tensor saved = of.fit(h, "h");
  const optional_tensor past = of.fit(grad_residual, "grad_residual");
  ops::layer_norm_backward::options with{.gamma_offset = static_cast<float>(weight_offset)};
  with.gamma = call.view(weight, "weight");
  with.grad_residual = of.view(past, "grad_residual");
  if (with_grad_weight) with.grad_gamma = call.view(grad_weight, "grad_weight");
  if (with_grad_bias) with.grad_beta = call.view(grad_bias, "grad_bias");
  call.run<ops::layer_norm_backward>(ops::layer_norm_backward::call(
      of.view(gradient, "grad_out"), of.view(saved, "h"), of.view_per_row(mean, "mean"),
      of.view_per_row(rstd, "rstd"), of.view(grad_x, "grad_x"), with));
  return {grad_x, grad_weight, grad_bias};
}

SWITCHYARD_TORCH_OP(layer_norm, layer_norm)
SWITCHYARD_TORCH_OP(layer_norm_backward, layer_norm_backward)

}  // namespace

}  // namespace switchyard_torch
