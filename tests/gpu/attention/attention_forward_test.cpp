// Attention forward on the GPU, through catalog and dispatcher: random calls over all axes, each run by every
// variant that may serve it, against the f64 reference. SWITCHYARD_TEST_CALLS says how many calls,
// SWITCHYARD_TEST_SEED from which seed on.
#include <cstdint>
#include <memory>

#include "catch.hpp"
#include "random_call.hpp"
#include "run_random_calls.hpp"

TEST_CASE("attention forward on the GPU: random calls by every variant", "[attention]") {
  const auto make = [](std::uint32_t seed) {
    auto result = std::make_unique<call>(seed);
    result->compute();
    return result;
  };
  const auto put = [](device_memory& memory, const call& each) {
    attention_on_gpu<arguments> result{memory, each};
    arguments& a = result.a;
    if (a.bias != nullptr) a.bias = memory.copy(each.bias) + each.first_bias * sy::size_of(a.dtype);
    if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(each.cu_q);
    if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(each.cu_k);
    if (a.seqused_q != nullptr) a.seqused_q = memory.copy(each.used_q);
    if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.used_k);
    if (a.dropout_state != nullptr) a.dropout_state = memory.copy(each.state);
    if (a.k_scale != nullptr) a.k_scale = memory.copy(each.k_scales);
    if (a.v_scale != nullptr) a.v_scale = memory.copy(each.v_scales);
    return result;
  };
  run_random_calls<attention_forward>(300, make, put);
}
