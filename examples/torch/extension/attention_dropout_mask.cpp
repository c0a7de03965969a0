// SPDX-License-Identifier: MIT
#include <switchyard/operators/attention_dropout_mask.hpp>

#include "attention.hpp"
#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

Tensor attention_dropout_mask(const Tensor& state, std::int64_t batch, std::int64_t heads,
                              std::int64_t seqlen_q, std::int64_t seqlen_k, double dropout_p) {
  const invocation call{"attention_dropout_mask", state};
  Tensor mask = call.empty({batch, heads, seqlen_q, seqlen_k}, dtype_f32());
  if (mask.numel() == 0) return mask;
  call.run<ops::attention_dropout_mask>(ops::attention_dropout_mask::call(
      call.view(mask, "mask"),
      {.dropout_state = state_of(call, state), .dropout_p = static_cast<float>(dropout_p)}));
  return mask;
}

SWITCHYARD_TORCH_SCHEMA(
    "attention_dropout_mask(Tensor state, SymInt batch, SymInt heads, SymInt seqlen_q, SymInt seqlen_k, "
    "float dropout_p) -> Tensor")
SWITCHYARD_TORCH_KERNEL(attention_dropout_mask, TORCH_BOX(&attention_dropout_mask))

}  // namespace

}  // namespace switchyard_torch
