// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>

#include "invocation.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor, Tensor, Tensor> rms_norm(const Tensor& x, const optional_tensor& weight,
                                            const optional_tensor& residual, double epsilon,
                                            double weight_offset, bool with_statistics) {
  const invocation call{"rms_norm", x};
  const rows of{call, x};
  const std::int32_t type = dtype_of(x);
  Tensor out = of.empty(type);
  Tensor residual_out = residual.has_value() ? of.empty(type) : nothing();
  Tensor rstd = with_statistics ? of.empty_per_row() : nothing();
  if (of.is_empty()) return {out, residual_out, rstd};
  const Tensor in = of.fit(x, "x");
  const optional_tensor added = of.fit(residual, "residual");
  ops::rms_norm::options with{.epsilon = static_cast<float>(epsilon),
                              .gamma_offset = static_cast<float>(weight_offset)};
  with.gamma = call.view(weight, "weight");
  if (added.has_value()) {
    with.residual = of.view(added, "residual");
    with.residual_out = of.view(residual_out, "residual_out");
  }
  if (with_statistics) with.rstd = of.view_per_row(rstd, "rstd");
  call.run<ops::rms_norm>(ops::rms_norm::call(of.view(in, "x"), of.view(out, "out"), with));
  return {out, residual_out, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad_out, const Tensor& h, const Tensor& rstd,
                                             const optional_tensor& weight,
                                             const optional_tensor& grad_residual, double weight_offset,
                                             bool with_grad_weight) {
  const invocation call{"rms_norm_backward", h};
  const rows of{call, h};
  Tensor grad_x = of.empty(dtype_of(h));
  const std::int32_t weight_type = dtype_of(weight.has_value() ? *weight : h);
  Tensor grad_weight = with_grad_weight ? call.empty({of.columns()}, weight_type) : nothing();
  if (of.is_empty()) {
    if (with_grad_weight) torch::stable::zero_(grad_weight);
    return {grad_x, grad_weight};
  }
  const Tensor gradient = of.fit(grad_out, "grad_out");
  const Tensor saved = of.fit(h, "h");
  const optional_tensor past = of.fit(grad_residual, "grad_residual");
  ops::rms_norm_backward::options with{.gamma_offset = static_cast<float>(weight_offset)};
  with.gamma = call.view(weight, "weight");
  with.grad_residual = of.view(past, "grad_residual");
  if (with_grad_weight) with.grad_gamma = call.view(grad_weight, "grad_weight");
  call.run<ops::rms_norm_backward>(
      ops::rms_norm_backward::call(of.view(gradient, "grad_out"), of.view(saved, "h"),
                                   of.view_per_row(rstd, "rstd"), of.view(grad_x, "grad_x"), with));
  return {grad_x, grad_weight};
}

SWITCHYARD_TORCH_OP(rms_norm, rms_norm)
SWITCHYARD_TORCH_OP(rms_norm_backward, rms_norm_backward)

}  // namespace

}  // namespace switchyard_torch
