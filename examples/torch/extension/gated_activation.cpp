// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>

#include "invocation.hpp"
#include "op_options.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor> gated_activation(op_options<ops::gated_activation>& given, const Tensor& gate,
                                    const optional_tensor& up) {
  const invocation call{"gated_activation", gate};
  const bool packed = !up.has_value();
  const rows of{call, gate, packed ? 2 : 1};
  Tensor out = of.empty(dtype_of(gate));
  if (of.is_empty()) return {out};
  const auto with = given.bind(call, of);
  if (packed) {
    const Tensor both = of.fit(gate, "gate", 2 * of.columns());
    call.run<ops::gated_activation>(
        ops::gated_activation::call_packed(of.view(out, "out"), of.view(both, "gate"), with));
    return {out};
  }
  const Tensor gates = of.fit(gate, "gate");
  const Tensor ups = of.fit(*up, "up");
  call.run<ops::gated_activation>(
      ops::gated_activation::call(of.view(gates, "gate"), of.view(ups, "up"), of.view(out, "out"), with));
  return {out};
}

std::tuple<Tensor, Tensor> gated_activation_backward(op_options<ops::gated_activation_backward>& given,
                                                     const Tensor& grad_out, const Tensor& gate,
                                                     const optional_tensor& up) {
  const invocation call{"gated_activation_backward", gate};
  const bool packed = !up.has_value();
  const rows of{call, gate, packed ? 2 : 1};
  const std::int32_t type = dtype_of(gate);
  Tensor grad_gate = of.empty(type, packed ? 2 * of.columns() : of.columns());
  Tensor grad_up = packed ? nothing() : of.empty(type);
  if (of.is_empty()) return {grad_gate, grad_up};
  const auto with = given.bind(call, of);
  const Tensor gradient = of.fit(grad_out, "grad_out");
  if (packed) {
    const Tensor both = of.fit(gate, "gate", 2 * of.columns());
    call.run<ops::gated_activation_backward>(ops::gated_activation_backward::call_packed(
        of.view(gradient, "grad_out"), of.view(both, "gate"), of.view(grad_gate, "grad_gate"), with));
    return {grad_gate, grad_up};
  }
  const Tensor gates = of.fit(gate, "gate");
  const Tensor ups = of.fit(*up, "up");
  call.run<ops::gated_activation_backward>(ops::gated_activation_backward::call(
      of.view(gradient, "grad_out"), of.view(gates, "gate"), of.view(ups, "up"),
      of.view(grad_gate, "grad_gate"), of.view(grad_up, "grad_up"), with));
  return {grad_gate, grad_up};
}

SWITCHYARD_TORCH_OP(gated_activation, "Tensor gate, Tensor? up=None", "Tensor out",
                    op_kernel<ops::gated_activation, &gated_activation>)
SWITCHYARD_TORCH_OP(gated_activation_backward, "Tensor grad_out, Tensor gate, Tensor? up=None",
                    "Tensor grad_gate, Tensor grad_up",
                    op_kernel<ops::gated_activation_backward, &gated_activation_backward>)

}  // namespace

}  // namespace switchyard_torch
