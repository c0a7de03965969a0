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

/// How a call's tensors lie.
struct layout {
  explicit layout(const op_options<op>& given)
      : packed{given.tensor<&options::cu_seqlens_q>().has_value()},
        paged{given.block_table.has_value()},
        packed_k{given.tensor<&options::cu_seqlens_k>().has_value() && !paged} {}

  bool packed;
  bool paged;
  bool packed_k;
};

/// Kernels leave queries that no sequence has alone.
void clear(Tensor& out, bool with_lse, Tensor& lse) {
  torch::stable::zero_(out);
  if (with_lse) torch::stable::zero_(lse);
}

/// Writes `out`, and `lse` where the call wants it.
void compute(const invocation& call, op_options<op>& given, const layout& of, const Tensor& q,
             const Tensor& k, const Tensor& v, Tensor& out, Tensor& lse) {
  const bool with_lse = given.wants<&options::lse>();
  if (given.tensor<&options::seqused_q>().has_value()) clear(out, with_lse, lse);
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  options with = given.bind(call);
  if (with_lse) with.lse = call.view(lse, "lse");
  const switchyard::tensor queries = view_heads(call, q_in, "q", of.packed);
  const switchyard::tensor result = view_heads(call, out, "out", of.packed);
  if (of.paged) {
    const Tensor table = with_dense_rows(*given.block_table);
    ops::paged cache{view_pages(call, k_in, "k"), view_pages(call, v_in, "v"),
                     call.view(table, "block_table"), std::exchange(with.seqused_k, {})};
    if (with.longest_k >= 0) cache.longest = with.longest_k;
    call.run<op>(op::call(queries, cache, result, with));
  } else {
    call.run<op>(op::call(queries, view_heads(call, k_in, "k", of.packed_k),
                          view_heads(call, v_in, "v", of.packed_k), result, with));
  }
}

std::tuple<Tensor, Tensor> attention_forward(op_options<op>& given, const Tensor& q, const Tensor& k,
                                             const Tensor& v) {
  const invocation call{"attention_forward", q};
  const layout of{given};
  const bool with_lse = given.wants<&options::lse>();
  require_ranks(call, q, of.packed, k, v, of.packed_k);
  Tensor out = empty_heads(call, q, v.size(v.dim() - 1), of.packed);
  Tensor lse = with_lse ? empty_lse(call, q, of.packed) : nothing();
  if (out.numel() == 0) {
    if (with_lse)
      lse = lse_without_values(lse, k, [&] { return std::get<1>(attention_forward(given, q, k, k)); });
    return {out, lse};
  }
  // Gradients of other layers read tokens behind the last sequence too: 0 times what memory held may be NaN.
  if (!given.tensor<&options::seqused_q>().has_value() && (with_lse || call.is_on_host()) &&
      may_have_padding(call, given.tensor<&options::cu_seqlens_q>(), q.size(0)))
    clear(out, with_lse, lse);
  compute(call, given, of, q, k, v, out, lse);
  return {out, lse};
}

/// The same into a tensor of the caller's.
std::tuple<Tensor> attention_forward_into(op_options<op>& given, const Tensor& q, const Tensor& k,
                                          const Tensor& v, const Tensor& into) {
  const invocation call{"attention_forward_into", q};
  const layout of{given};
  require_ranks(call, q, of.packed, k, v, of.packed_k);
  require_result(call, into, q, v);
  Tensor out = into;
  Tensor lse = given.wants<&options::lse>() ? empty_lse(call, q, of.packed) : nothing();
  if (out.numel() != 0) compute(call, given, of, q, k, v, out, lse);
  return {lse};
}

SWITCHYARD_TORCH_OP(attention_forward, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse",
                    op_kernel<op, &attention_forward>)
SWITCHYARD_TORCH_OP(attention_forward_into, "Tensor q, Tensor k, Tensor v, Tensor(a!) out", "Tensor lse",
                    op_kernel<op, &attention_forward_into>)

}  // namespace

}  // namespace switchyard_torch
