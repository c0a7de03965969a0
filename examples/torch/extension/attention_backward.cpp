#include <tuple>

#include <switchyard/operators/attention_backward.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
    const Tensor& lse, const optional_tensor& bias, const optional_tensor& alibi_slopes,
    const optional_tensor& cu_seqlens_q, const optional_tensor& cu_seqlens_k,
    const optional_tensor& seqused_q, const optional_tensor& seqused_k, const optional_tensor& dropout_state,
    std::int64_t longest_q, std::int64_t longest_k, std::int64_t mask, std::int64_t window_left,
    std::int64_t window_right, std::optional<double> scale, double soft_cap, double dropout_p,
    bool deterministic, bool with_grad_bias) {
  const invocation call{"attention_backward", q};
  const bool packed = cu_seqlens_q.has_value();
  const bool packed_k = cu_seqlens_k.has_value();
  require_ranks(call, q, packed, k, v, packed_k);
  Tensor grad_q = empty_heads(call, q, q.size(q.dim() - 1), packed);
  Tensor grad_k = empty_heads(call, k, k.size(k.dim() - 1), packed_k);
  Tensor grad_v = empty_heads(call, v, v.size(v.dim() - 1), packed_k);
  if (with_grad_bias && !bias.has_value())
    refuse(call.op(), "the gradient of a bias is wanted, but there is none");
  Tensor grad_bias =
      with_grad_bias ? call.empty({bias->sizes().data(), bias->sizes().size()}, dtype_of(*bias)) : nothing();
  const bool is_empty = grad_q.numel() == 0 || grad_k.numel() == 0 || grad_v.numel() == 0;
  if (seqused_q.has_value() || is_empty) torch::stable::zero_(grad_q);  // kernels leave the rest alone
  if (seqused_k.has_value() || is_empty) {
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
  const optional_tensor bias_in = with_dense_rows(bias);
  ops::attention_backward::tensors of{};
  of.q = view_heads(call, q_in, "q", packed);
  of.k = view_heads(call, k_in, "k", packed_k);
  of.v = view_heads(call, v_in, "v", packed_k);
  of.out = view_heads(call, out_in, "out", packed);
  of.dout = view_heads(call, grad_in, "grad_out", packed);
  of.lse = call.view(lse, "lse");
  of.dq = view_heads(call, grad_q, "grad_q", packed);
  of.dk = view_heads(call, grad_k, "grad_k", packed_k);
  of.dv = view_heads(call, grad_v, "grad_v", packed_k);
  ops::attention_backward::options with{.mask = mask_of(call, mask),
                                        .soft_cap = static_cast<float>(soft_cap),
                                        .window_left = static_cast<std::int32_t>(window_left),
                                        .window_right = static_cast<std::int32_t>(window_right)};
  if (scale.has_value()) with.scale = static_cast<float>(*scale);
  with.bias = call.view(bias_in, "bias");
  if (with_grad_bias) with.dbias = call.view(grad_bias, "grad_bias");
  with.alibi_slopes = call.view(alibi_slopes, "alibi_slopes");
  with.cu_seqlens_q = call.view(cu_seqlens_q, "cu_seqlens_q");
  with.cu_seqlens_k = call.view(cu_seqlens_k, "cu_seqlens_k");
  with.longest_q = longest_q;
  with.longest_k = longest_k;
  with.seqused_q = call.view(seqused_q, "seqused_q");
  with.seqused_k = call.view(seqused_k, "seqused_k");
  with.dropout_p = static_cast<float>(dropout_p);
  with.dropout_state = state_of(call, dropout_state);
  with.deterministic = deterministic;
  call.run<ops::attention_backward>(ops::attention_backward::call(of, with));
  return {grad_q, grad_k, grad_v, grad_bias};
}

SWITCHYARD_TORCH_OP(attention_backward, attention_backward)

}  // namespace

}  // namespace switchyard_torch
