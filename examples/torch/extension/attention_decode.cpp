#include <tuple>

#include <switchyard/operators/attention_decode.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

std::tuple<Tensor, Tensor> attention_decode(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const optional_tensor& k_scale, const optional_tensor& v_scale,
                                            const optional_tensor& alibi_slopes, const optional_tensor& sinks,
                                            const optional_tensor& seqused_k,
                                            const optional_tensor& block_table, std::int64_t mask,
                                            std::int64_t window_left, std::optional<double> scale,
                                            double soft_cap, bool with_lse) {
  const invocation call{"attention_decode", q};
  require_ranks(call, q, false, k, v, false);
  Tensor out = empty_heads(call, q, v.size(3), false);
  Tensor lse = with_lse ? empty_lse(call, q, false) : nothing();
  if (out.numel() == 0) {
    if (with_lse && lse.numel() != 0)  // values without columns have an LSE: that of the keys
      lse = std::get<1>(attention_decode(q, k, k, k_scale, k_scale, alibi_slopes, sinks, seqused_k,
                                         block_table, mask, window_left, scale, soft_cap, true));
    return {out, lse};
  }
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  ops::attention_decode::options with{.mask = mask_of(call, mask),
                                      .soft_cap = static_cast<float>(soft_cap),
                                      .window_left = static_cast<std::int32_t>(window_left)};
  if (scale.has_value()) with.scale = static_cast<float>(*scale);
  if (with_lse) with.lse = call.view(lse, "lse");
  with.k_scale = call.view(k_scale, "k_scale");
  with.v_scale = call.view(v_scale, "v_scale");
  with.alibi_slopes = call.view(alibi_slopes, "alibi_slopes");
  with.sinks = call.view(sinks, "sinks");
  const switchyard::tensor queries = view_heads(call, q_in, "q", false);
  const switchyard::tensor result = view_heads(call, out, "out", false);
  if (block_table.has_value()) {
    const ops::paged cache{view_pages(call, k_in, "k"), view_pages(call, v_in, "v"),
                           call.view(*block_table, "block_table"), call.view(seqused_k, "seqused_k")};
    call.run<ops::attention_decode>(ops::attention_decode::call(queries, cache, result, with));
  } else {
    with.seqused_k = call.view(seqused_k, "seqused_k");
    call.run<ops::attention_decode>(ops::attention_decode::call(
        queries, view_heads(call, k_in, "k", false), view_heads(call, v_in, "v", false), result, with));
  }
  return {out, lse};
}

SWITCHYARD_TORCH_OP(attention_decode, attention_decode)

}  // namespace

}  // namespace switchyard_torch
