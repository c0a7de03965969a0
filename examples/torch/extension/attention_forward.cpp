// SPDX-License-Identifier: MIT
#include <tuple>
#include <utility>

#include <switchyard/operators/attention_forward.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

using op = ops::attention_forward;
using options = op::options;

std::tuple<Tensor, Tensor> attention_forward(op_options<op>& given, const Tensor& q, const Tensor& k,
                                             const Tensor& v) {
  const invocation call{"attention_forward", q};
  const bool packed = given.tensor<&options::cu_seqlens_q>().has_value();
  const bool paged = given.block_table.has_value();
  const bool packed_k = given.tensor<&options::cu_seqlens_k>().has_value() && !paged;
  const bool with_lse = given.wants<&options::lse>();
  require_ranks(call, q, packed, k, v, packed_k);
  Tensor out = empty_heads(call, q, v.size(v.dim() - 1), packed);
  Tensor lse = with_lse ? empty_lse(call, q, packed) : nothing();
  if (out.numel() == 0) {
    if (with_lse)
      lse = lse_without_values(lse, k, [&] { return std::get<1>(attention_forward(given, q, k, k)); });
    return {out, lse};
  }
  if (given.tensor<&options::seqused_q>().has_value()) {  // kernels leave the other queries alone
    torch::stable::zero_(out);
    if (with_lse) torch::stable::zero_(lse);
  }
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  options with = given.bind(call);
  if (with_lse) with.lse = call.view(lse, "lse");
  const switchyard::tensor queries = view_heads(call, q_in, "q", packed);
  const switchyard::tensor result = view_heads(call, out, "out", packed);
  if (paged) {
    ops::paged cache{view_pages(call, k_in, "k"), view_pages(call, v_in, "v"),
                     call.view(*given.block_table, "block_table"), std::exchange(with.seqused_k, {})};
    if (with.longest_k >= 0) cache.longest = with.longest_k;
    call.run<op>(op::call(queries, cache, result, with));
  } else {
    call.run<op>(op::call(queries, view_heads(call, k_in, "k", packed_k),
                          view_heads(call, v_in, "v", packed_k), result, with));
  }
  return {out, lse};
}

SWITCHYARD_TORCH_KERNEL(attention_forward, &op_kernel<op, &attention_forward>::run)

}  // namespace

}  // namespace switchyard_torch
