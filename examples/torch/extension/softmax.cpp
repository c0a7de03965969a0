// SPDX-License-Identifier: MIT
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

#include "invocation.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

Tensor softmax(const Tensor& x, double scale) {
  const invocation call{"softmax", x};
  const rows of{call, x};
  Tensor out = of.empty(dtype_of(x));
  if (of.is_empty()) return out;
  const Tensor in = of.fit(x, "x");
  call.run<ops::softmax>(
      ops::softmax::call(of.view(in, "x"), of.view(out, "out"), {.scale = static_cast<float>(scale)}));
  return out;
}

Tensor softmax_backward(const Tensor& grad_out, const Tensor& out, double scale) {
  const invocation call{"softmax_backward", out};
  const rows of{call, out};
  Tensor grad_x = of.empty(dtype_of(out));
  if (of.is_empty()) return grad_x;
  const Tensor gradient = of.fit(grad_out, "grad_out");
  const Tensor saved = of.fit(out, "out");
  call.run<ops::softmax_backward>(
      ops::softmax_backward::call(of.view(gradient, "grad_out"), of.view(saved, "out"),
                                  of.view(grad_x, "grad_x"), {.scale = static_cast<float>(scale)}));
  return grad_x;
}

SWITCHYARD_TORCH_OP(softmax, softmax)
SWITCHYARD_TORCH_OP(softmax_backward, softmax_backward)

}  // namespace

}  // namespace switchyard_torch
