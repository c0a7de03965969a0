// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/attention_backward.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

using op = ops::attention_backward;
using options = op::options;

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(op_options<op>& given, const Tensor& grad_out,
                                                              const Tensor& q, const Tensor& k,
                                                              const Tensor& v, const Tensor& out,
                                                              const Tensor& lse) {
  const invocation call{"attention_backward", q};
  const optional_tensor& bias = given.tensor<&options::bias>();
  const bool packed = given.tensor<&options::cu_seqlens_q>().has_value();
  const bool packed_k = given.tensor<&options::cu_seqlens_k>().has_value();
  const bool with_grad_bias = given.wants<&options::dbias>();
  require_ranks(call, q, packed, k, v, packed_k);
  Tensor grad_q = empty_heads(call, q, q.size(q.dim() - 1), packed);
  Tensor grad_k = empty_heads(call, k, k.size(k.dim() - 1), packed_k);
  Tensor grad_v = empty_heads(call, v, v.size(v.dim() - 1), packed_k);
  if (with_grad_bias && !bias.has_value())
    refuse(call.op(), "the gradient of a bias is wanted, but there is none");
  Tensor grad_bias =
      with_grad_bias ? call.empty({bias->sizes().data(), bias->sizes().size()}, dtype_of(*bias)) : nothing();
  const bool is_empty = grad_q.numel() == 0 || grad_k.numel() == 0 || grad_v.numel() == 0;
  // Kernels leave tokens alone that no sequence has.
  if (given.tensor<&options::seqused_q>().has_value() || is_empty ||
      may_have_padding(call, given.tensor<&options::cu_seqlens_q>(), q.size(0)))
    torch::stable::zero_(grad_q);
  if (given.tensor<&options::seqused_k>().has_value() || is_empty ||
      may_have_padding(call, given.tensor<&options::cu_seqlens_k>(), k.size(0))) {
    torch::stable::zero_(grad_k);
    torch::stable::zero_(grad_v);
  }
  if (is_empty) {
    if (with_grad_bias) torch::stable::zero_(grad_bias);
    return {grad_q, grad_k, grad_v, grad_bias};
  }
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  const Tensor out_in = with_dense_rows(out);
  const Tensor grad_in = with_dense_rows(grad_out);
  op::tensors of{};
  of.q = view_heads(call, q_in, "q", packed);
  of.k = view_heads(call, k_in, "k", packed_k);
  of.v = view_heads(call, v_in, "v", packed_k);
  of.out = view_heads(call, out_in, "out", packed);
  of.dout = view_heads(call, grad_in, "grad_out", packed);
  of.lse = call.view(lse, "lse");
  of.dq = view_heads(call, grad_q, "grad_q", packed);
  of.dk = view_heads(call, grad_k, "grad_k", packed_k);
  of.dv = view_heads(call, grad_v, "grad_v", packed_k);
  options with = given.bind(call);
  if (with_grad_bias) with.dbias = call.view(grad_bias, "grad_bias");
  call.run<op>(op::call(of, with));
  return {grad_q, grad_k, grad_v, grad_bias};
}

SWITCHYARD_TORCH_OP(attention_backward,
                    "Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse",
                    "Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_bias",
                    op_kernel<op, &attention_backward>)

}  // namespace

}  // namespace switchyard_torch
