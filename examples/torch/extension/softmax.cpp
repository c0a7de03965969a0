// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

#include "invocation.hpp"
#include "op_options.hpp"
#include "register.hpp"
#include "rows.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor> softmax(op_options<ops::softmax>& given, const Tensor& x) {
  const invocation call{"softmax", x};
  const rows of{call, x};
  Tensor out = of.empty(dtype_of(x));
  if (of.is_empty()) return {out};
  const Tensor in = of.fit(x, "x");
  const switchyard::tensor from = of.view(in, "x");  // first: of its type the result is, too
  call.run<ops::softmax>(ops::softmax::call(from, of.view(out, "out"), given.bind(call, of)));
  return {out};
}

std::tuple<Tensor> softmax_backward(op_options<ops::softmax_backward>& given, const Tensor& grad_out,
                                    const Tensor& out) {
  const invocation call{"softmax_backward", out};
  const rows of{call, out};
  Tensor grad_x = of.empty(dtype_of(out));
  if (of.is_empty()) return {grad_x};
  const Tensor gradient = of.fit(grad_out, "grad_out");
  const Tensor saved = of.fit(out, "out");
  call.run<ops::softmax_backward>(ops::softmax_backward::call(
      of.view(gradient, "grad_out"), of.view(saved, "out"), of.view(grad_x, "grad_x"), given.bind(call, of)));
  return {grad_x};
}

SWITCHYARD_TORCH_OP(softmax, "Tensor x", "Tensor out", op_kernel<ops::softmax, &softmax>)
SWITCHYARD_TORCH_OP(softmax_backward, "Tensor grad_out, Tensor out", "Tensor grad_x",
                    op_kernel<ops::softmax_backward, &softmax_backward>)

}  // namespace

}  // namespace switchyard_torch
