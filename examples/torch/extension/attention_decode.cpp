// SPDX-License-Identifier: MIT
#include <tuple>
#include <utility>

#include <switchyard/operators/attention_decode.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

using op = ops::attention_decode;
using options = op::options;

/// Writes `out`, and `lse` where the call wants it.
void compute(const invocation& call, op_options<op>& given, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& out, const Tensor& lse) {
  const Tensor q_in = with_dense_rows(q);
  const Tensor k_in = with_dense_rows(k);
  // With rotary columns apart the values are columns of k, also where PyTorch has copied the arguments.
  const bool is_apart = given.tensor<&options::k_rotary>().has_value();
  const Tensor v_in = is_apart ? k_in : with_dense_rows(v);
  options with = given.bind(call);
  if (given.wants<&options::lse>()) with.lse = call.view(lse, "lse");
  const switchyard::tensor queries = view_heads(call, q_in, "q", false);
  const switchyard::tensor result = view_heads(call, out, "out", false);
  if (given.block_table.has_value()) {
    const Tensor table = with_dense_rows(*given.block_table);
    const ops::paged cache{view_pages(call, k_in, "k"), view_pages(call, v_in, "v"),
                           call.view(table, "block_table"), std::exchange(with.seqused_k, {})};
    call.run<op>(op::call(queries, cache, result, with));
  } else {
    call.run<op>(op::call(queries, view_heads(call, k_in, "k", false), view_heads(call, v_in, "v", false),
                          result, with));
  }
}

std::tuple<Tensor, Tensor> attention_decode(op_options<op>& given, const Tensor& q, const Tensor& k,
                                            const Tensor& v) {
  const invocation call{"attention_decode", q};
  const bool with_lse = given.wants<&options::lse>();
  require_ranks(call, q, false, k, v, false);
  Tensor out = empty_heads(call, q, v.size(3), false);
  Tensor lse = with_lse ? empty_lse(call, q, false) : nothing();
  if (out.numel() == 0) {
    if (with_lse)
      lse = lse_without_values(lse, k, [&] { return std::get<1>(attention_decode(given, q, k, k)); });
    return {out, lse};
  }
  compute(call, given, q, k, v, out, lse);
  return {out, lse};
}

/// The same into a tensor of the caller's.
std::tuple<Tensor> attention_decode_into(op_options<op>& given, const Tensor& q, const Tensor& k,
                                         const Tensor& v, const Tensor& into) {
  const invocation call{"attention_decode_into", q};
  require_ranks(call, q, false, k, v, false);
  require_result(call, into, q, v);
  const Tensor lse = given.wants<&options::lse>() ? empty_lse(call, q, false) : nothing();
  if (into.numel() != 0) compute(call, given, q, k, v, into, lse);
  return {lse};
}

SWITCHYARD_TORCH_OP(attention_decode, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse",
                    op_kernel<op, &attention_decode>)
SWITCHYARD_TORCH_OP(attention_decode_into, "Tensor q, Tensor k, Tensor v, Tensor(a!) out", "Tensor lse",
                    op_kernel<op, &attention_decode_into>)

}  // namespace

}  // namespace switchyard_torch
