#include <limits>
#include <tuple>

#include <switchyard/operators/attention_forward.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor, Tensor> attention_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const optional_tensor& bias,
    const optional_tensor& alibi_slopes, const optional_tensor& sinks, const optional_tensor& cu_seqlens_q,
    const optional_tensor& cu_seqlens_k, const optional_tensor& seqused_q, const optional_tensor& seqused_k,
    const optional_tensor& block_table, const optional_tensor& dropout_state, std::int64_t longest_q,
    std::int64_t longest_k, std::int64_t mask, std::int64_t window_left, std::int64_t window_right,
    std::optional<double> scale, double soft_cap, double dropout_p, bool with_lse,
    const optional_tensor& k_scale, const optional_tensor& v_scale) {
  const invocation call{"attention_forward", q};
  const bool packed = cu_seqlens_q.has_value();
  const bool paged = block_table.has_value();
  const bool packed_k = cu_seqlens_k.has_value() && !paged;
  require_ranks(call, q, packed, k, v, packed_k);
  Tensor out = empty_heads(call, q, v.size(v.dim() - 1), packed);
  Tensor lse = with_lse ? empty_lse(call, q, packed) : nothing();
  if (out.numel() == 0) {
    if (with_lse && lse.numel() != 0)  // values without columns have an LSE: that of the keys
      lse = std::get<1>(attention_forward(q, k, k, bias, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k,
                                          seqused_q, seqused_k, block_table, std::nullopt, longest_q,
                                          longest_k, mask, window_left, window_right, scale, soft_cap, 0.0,
                                          true, k_scale, k_scale));
    return {out, lse};
  }
  if (seqused_q.has_value()) {  // kernels leave the other queries alone
    torch::stable::zero_(out);
    if (with_lse) torch::stable::zero_(lse);
  }
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  const optional_tensor bias_in = with_dense_rows(bias);
  ops::attention_forward::options with{.mask = mask_of(call, mask),
                                       .soft_cap = static_cast<float>(soft_cap),
                                       .window_left = static_cast<std::int32_t>(window_left),
                                       .window_right = static_cast<std::int32_t>(window_right)};
  if (scale.has_value()) with.scale = static_cast<float>(*scale);
  if (with_lse) with.lse = call.view(lse, "lse");
  with.k_scale = call.view(k_scale, "k_scale");
  with.v_scale = call.view(v_scale, "v_scale");
  with.bias = call.view(bias_in, "bias");
  with.alibi_slopes = call.view(alibi_slopes, "alibi_slopes");
  with.sinks = call.view(sinks, "sinks");
  with.cu_seqlens_q = call.view(cu_seqlens_q, "cu_seqlens_q");
  with.cu_seqlens_k = call.view(cu_seqlens_k, "cu_seqlens_k");
  with.longest_q = longest_q;
  with.longest_k = longest_k;
  with.seqused_q = call.view(seqused_q, "seqused_q");
  with.dropout_p = static_cast<float>(dropout_p);
  with.dropout_state = state_of(call, dropout_state);
  const switchyard::tensor queries = view_heads(call, q_in, "q", packed);
  const switchyard::tensor result = view_heads(call, out, "out", packed);
  if (paged) {
    ops::paged cache{view_pages(call, k_in, "k"), view_pages(call, v_in, "v"),
                     call.view(*block_table, "block_table"), call.view(seqused_k, "seqused_k")};
    if (longest_k >= 0) cache.longest = longest_k;
    call.run<ops::attention_forward>(ops::attention_forward::call(queries, cache, result, with));
  } else {
    with.seqused_k = call.view(seqused_k, "seqused_k");
    call.run<ops::attention_forward>(ops::attention_forward::call(
        queries, view_heads(call, k_in, "k", packed_k), view_heads(call, v_in, "v", packed_k), result, with));
  }
  return {out, lse};
}

SWITCHYARD_TORCH_OP(attention_forward, attention_forward)

}  // namespace

}  // namespace switchyard_torch
