// SPDX-License-Identifier: MIT
// The dispatchers of a device, and whether they serve a call.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>

#include "kernels/elements.hpp"
#include "kernels/expert_products.hpp"
#include "kernels/few_queries.hpp"
#include "kernels/rope_table.hpp"
#include "kernels/round_norm.hpp"
#include "kernels/set_rows.hpp"
#include "kernels/unpack_rows.hpp"

namespace switchyard_ggml {

/// One operator on one device. Any thread may call any function.
template <class Operator>
class served_operator {
 public:
  served_operator(switchyard::catalog& catalog, const switchyard::device& device) : calls_{catalog, device} {}

  void run(switchyard::stream on, const typename Operator::arguments& call, switchyard::workspace given) {
    calls_(on, call, given);
  }
  /// Loads what the call needs.
  [[nodiscard]] std::size_t workspace_bytes(switchyard::stream on, const typename Operator::arguments& call) {
    return calls_.workspace_bytes(on, call);
  }

  /// Whether a call is legal and a variant serves it. Problems that were asked about before cost a look-up.
  [[nodiscard]] bool serves(const typename Operator::arguments& call) {
    const auto problem = switchyard::make_problem<Operator>(call);
    const std::scoped_lock lock{mutex_};
    if (const auto known = known_.find(problem); known != known_.end()) return known->second;
    if (known_.size() >= max_known) known_.clear();
    const bool is_served = Operator::check(call).empty() && !calls_.explain(call).variant.empty();
    known_.emplace(problem, is_served);
    return is_served;
  }

  /// Forgets what was known: other kernels serve now.
  void forget() {
    const std::scoped_lock lock{mutex_};
    known_.clear();
  }

 private:
  static constexpr std::size_t max_known = 4096;

  switchyard::dispatcher<Operator> calls_;
  std::mutex mutex_;
  std::map<switchyard::problem_of<Operator>, bool> known_;  // guarded by mutex_
};

class operators {
 public:
  operators(switchyard::catalog& catalog, const switchyard::device& device)
      : all_{make<switchyard::operators::matmul_quantized>(catalog, device),
             make<switchyard::operators::embedding>(catalog, device),
             make<switchyard::operators::rms_norm>(catalog, device),
             make<switchyard::operators::layer_norm>(catalog, device),
             make<switchyard::operators::rotary>(catalog, device),
             make<switchyard::operators::attention_forward>(catalog, device),
             make<switchyard::operators::softmax>(catalog, device),
             make<switchyard::operators::gated_activation>(catalog, device),
             make<elements>(catalog, device),
             make<set_rows>(catalog, device),
             make<rope_table>(catalog, device),
             make<unpack_rows>(catalog, device),
             make<few_queries>(catalog, device),
             make<expert_products>(catalog, device),
             make<round_norm>(catalog, device)},
        is_host_{device.properties().backend == "host"} {}

  [[nodiscard]] bool is_host() const noexcept { return is_host_; }

  template <class Operator>
  [[nodiscard]] served_operator<Operator>& of() {
    return *std::get<std::unique_ptr<served_operator<Operator>>>(all_);
  }

  void forget() {
    std::apply([](auto&... served) { (served->forget(), ...); }, all_);
  }

 private:
  template <class Operator>
  [[nodiscard]] static std::unique_ptr<served_operator<Operator>> make(switchyard::catalog& catalog,
                                                                       const switchyard::device& device) {
    return std::make_unique<served_operator<Operator>>(catalog, device);
  }
  template <class... Operators>
  using served_operators = std::tuple<std::unique_ptr<served_operator<Operators>>...>;

  served_operators<switchyard::operators::matmul_quantized, switchyard::operators::embedding,
                   switchyard::operators::rms_norm, switchyard::operators::layer_norm,
                   switchyard::operators::rotary, switchyard::operators::attention_forward,
                   switchyard::operators::softmax, switchyard::operators::gated_activation, elements,
                   set_rows, rope_table, unpack_rows, few_queries, expert_products, round_norm>
      all_;
  bool is_host_;
};

}  // namespace switchyard_ggml
