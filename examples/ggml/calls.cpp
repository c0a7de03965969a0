// SPDX-License-Identifier: MIT
#include "calls.hpp"

#include "operators.hpp"

namespace switchyard_ggml {

namespace ops = switchyard::operators;

bool calls::is_host() const noexcept {
  return with_.is_host();
}

template <class Operator>
bool calls::make(const typename Operator::arguments& call) {
  if (is_asking()) return with_.of<Operator>().serves(call);
  served_operator<Operator>& served = with_.of<Operator>();
  if (is_host()) {
    served.run(stream_, call, {});
    return true;
  }
  // Of the backend's own memory: what a captured call is given stays its own.
  const std::size_t bytes = served.workspace_bytes(stream_, call);
  void* const memory = bytes > 0 ? scratch_->take(bytes) : nullptr;
  served.run(stream_, call, {memory, bytes});
  return true;
}

template <class Operator>
bool calls::serves(const typename Operator::arguments& call) {
  return with_.of<Operator>().serves(call);
}

template bool calls::serves<ops::matmul_quantized>(const ops::matmul_quantized::arguments&);
template bool calls::serves<few_queries>(const few_queries::arguments&);
template bool calls::serves<round_norm>(const round_norm::arguments&);

template bool calls::make<ops::matmul_quantized>(const ops::matmul_quantized::arguments&);
template bool calls::make<ops::embedding>(const ops::embedding::arguments&);
template bool calls::make<ops::rms_norm>(const ops::rms_norm::arguments&);
template bool calls::make<ops::layer_norm>(const ops::layer_norm::arguments&);
template bool calls::make<ops::rotary>(const ops::rotary::arguments&);
template bool calls::make<ops::attention_forward>(const ops::attention_forward::arguments&);
template bool calls::make<ops::softmax>(const ops::softmax::arguments&);
template bool calls::make<ops::gated_activation>(const ops::gated_activation::arguments&);
template bool calls::make<elements>(const elements::arguments&);
template bool calls::make<set_rows>(const set_rows::arguments&);
template bool calls::make<rope_table>(const rope_table::arguments&);
template bool calls::make<unpack_rows>(const unpack_rows::arguments&);
template bool calls::make<few_queries>(const few_queries::arguments&);
template bool calls::make<expert_products>(const expert_products::arguments&);
template bool calls::make<round_norm>(const round_norm::arguments&);

}  // namespace switchyard_ggml
