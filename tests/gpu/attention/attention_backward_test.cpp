// SPDX-License-Identifier: MIT
// Attention backward on the GPU, through catalog and dispatcher: the calls of the forward test, less paging
// and sinks, each by every variant that may serve it, against the f64 reference; deterministic ones twice,
// for the same bits. Steered by the forward test's variables.
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "random_backward_call.hpp"
#include "run_random_calls.hpp"

namespace {

/// A backward call in device memory.
struct backward_on_gpu {
  attention_backward::arguments a;

  backward_on_gpu(device_memory& memory, const backward_call& call) : a{call.a}, call_{call} {
    const auto before = call.forward.first * sy::size_of(a.dtype);
    a.q = memory.copy(call.forward.q) + before;
    a.k = memory.copy(call.forward.k) + before;
    a.v = memory.copy(call.forward.v) + before;
    a.out = memory.copy(call.out) + before;
    a.dout = memory.copy(call.dout) + before;
    a.lse = memory.copy(call.lse);
    if (a.dlse != nullptr) a.dlse = memory.copy(call.dlse);
    for (std::size_t n = 0; n < results_.size(); ++n) results_[n] = memory.poisoned(call.bytes(n));
    a.dq = results_[0] + before;
    a.dk = results_[1] + before;
    a.dv = results_[2] + before;
    if (a.dbias != nullptr) a.dbias = results_[3];
    call.forward.block_mask.set(a, [&](const auto& of) { return memory.copy(of); });
    if (a.bias != nullptr) a.bias = memory.copy(call.forward.bias);
    if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(call.forward.slopes);
    if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(call.forward.cu_q);
    if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(call.forward.cu_k);
    if (a.seqused_q != nullptr) a.seqused_q = memory.copy(call.forward.used_q);
    if (a.seqused_k != nullptr) a.seqused_k = memory.copy(call.forward.used_k);
    if (a.dropout_state != nullptr) a.dropout_state = memory.copy(call.forward.state);
  }

  [[nodiscard]] std::string wrong(const std::function<void()>& launch) const {
    constexpr std::array<const char*, 4> names{"dq", "dk", "dv", "dbias"};
    const auto found = run(launch);
    for (std::size_t n = 0; n < found.size(); ++n) {
      std::string result =
          differences(names[n], call_.expected[n], call_.limits[n], a.dtype, found[n].data());
      if (!result.empty()) return result;
    }
    if (a.deterministic && run(launch) != found) return "other bits in another run";
    return {};
  }

 private:
  [[nodiscard]] std::array<std::vector<std::byte>, 4> run(const std::function<void()>& launch) const {
    for (std::size_t n = 0; n < results_.size(); ++n) poison(results_[n], call_.bytes(n));
    launch();
    std::array<std::vector<std::byte>, 4> found;
    for (std::size_t n = 0; n < found.size(); ++n) found[n] = fetch(results_[n], call_.bytes(n));
    return found;
  }

  const backward_call& call_;
  std::array<std::byte*, 4> results_{};
};

}  // namespace

TEST_CASE("attention backward on the GPU: random calls by every variant", "[attention]") {
  run_random_calls<attention_backward, backward_call>(200,
                                                      [](device_memory& memory, const backward_call& given) {
                                                        return backward_on_gpu{memory, given};
                                                      });
}
