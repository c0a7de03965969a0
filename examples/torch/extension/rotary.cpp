// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/rotary.hpp>

#include "invocation.hpp"
#include "op_options.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

using op = switchyard::operators::rotary;

/// A result beside q or k: [batch, heads, seqlen, dim] over memory [batch, seqlen, heads, dim], or packed.
[[nodiscard]] Tensor empty_beside(const invocation& call, const Tensor& x, bool packed) {
  const auto sizes = x.sizes();
  if (packed) return call.empty({sizes.data(), sizes.size()}, dtype_of(x));
  const std::array<std::int64_t, 4> strides{sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
  return call.empty({sizes.data(), sizes.size()}, strides, dtype_of(x));
}

std::tuple<Tensor, Tensor> rotary(op_options<op>& given, const Tensor& q, const optional_tensor& k) {
  const invocation call{"rotary", q};
  const bool packed = given.tensor<&op::options::cu_seqlens>().has_value();
  const std::int64_t rank = packed ? 3 : 4;
  if (q.dim() != rank || (k.has_value() && k->dim() != rank)) {
    refuse("rotary", packed ? "q and k must be [tokens, heads, head_dim] with cu_seqlens"
                            : "q and k must be [batch, heads, seqlen, head_dim]");
  }
  const op::options with = given.bind(call);
  Tensor q_out = empty_beside(call, q, packed);
  Tensor k_out = k.has_value() ? empty_beside(call, *k, packed) : nothing();
  if (q.numel() == 0 && (!k.has_value() || k->numel() == 0)) return {q_out, k_out};
  // Gradients of what comes before read tokens behind the last sequence too. On a GPU results do not pay for
  // that: it writes as much as the kernel does.
  if ((with.inverse || call.is_on_host()) &&
      may_have_padding(call, given.tensor<&op::options::cu_seqlens>(), q.size(0))) {
    torch::stable::zero_(q_out);
    if (k.has_value()) torch::stable::zero_(k_out);
  }
  const Tensor q_in = with_dense_rows(q);
  const optional_tensor k_in = with_dense_rows(k);
  const auto view = [&](const Tensor& x, const char* name) {
    return packed ? call.view(x, name, {0, 1, 2}) : call.view(x, name, {0, 2, 1, 3});
  };
  call.run<op>(op::call(view(q_in, "q"), k.has_value() ? view(*k_in, "k") : switchyard::tensor{},
                        view(q_out, "q_out"), k.has_value() ? view(k_out, "k_out") : switchyard::tensor{},
                        with));
  return {q_out, k_out};
}

SWITCHYARD_TORCH_OP(rotary, "Tensor q, Tensor? k=None", "Tensor q_out, Tensor k_out", op_kernel<op, &rotary>)

}  // namespace

}  // namespace switchyard_torch
