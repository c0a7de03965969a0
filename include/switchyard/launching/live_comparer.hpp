// SPDX-License-Identifier: MIT
// Compares two variants at a real call: what serves it, and a runner-up. Both write to memory of their own,
// never to the call's results, and are timed in turns.
//
// compare() waits for its stream. It reads the call's tensors until it returns, and never afterwards. Any
// thread may call; a comparison takes many launches, so use one that serves no requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/tensors/result_tensor.hpp>

namespace switchyard {
inline namespace v0 {

/// How two variants are compared.
struct live_compare_options {
  std::uint32_t runner_up = 1;  ///< 1: the best variant after the winner; 2: the next one, and so on
  std::uint32_t turns = 8;      ///< times of each
  std::size_t max_bytes = std::size_t{64} << 20U;  ///< of the results
};

namespace detail {

/// A call, and what is known of it.
struct comparison_request {
  problem_view own;
  const void* arguments = nullptr;
  std::span<const result_tensor> results;
  std::string unknown;  ///< of the results; empty: nothing
  /// Whether a call's axes have the same values as those of another one.
  bool (*is_same_problem)(const void* one, const void* other) = nullptr;
  std::string illegal;  ///< what is wrong with the call; empty: nothing
};

class live_comparer {
 public:
  live_comparer(device_dispatcher& core, const comparison_request& of, stream on,
                const live_compare_options& options)
      : core_{core}, of_{of}, on_{on}, options_{options} {}
  live_comparer(const live_comparer&) = delete;
  live_comparer& operator=(const live_comparer&) = delete;

  /// Compares, and lets the source act on what was found. Throws call_error for an illegal call or one that
  /// no variant serves, driver_error where the device fails.
  [[nodiscard]] live_comparison compare();

 private:
  class copies;

  struct contender {
    const plan* of = nullptr;
    std::unique_ptr<plan> own;          ///< null: it is a dispatcher's
    std::vector<std::uint32_t> others;  ///< all variants but this one
  };

  /// The part of compare() that holds the dispatcher's guard.
  void compare_guarded(operator_state& now, live_comparison& out);

  /// Why nothing is compared; empty: it can be.
  [[nodiscard]] std::string find_obstacle() const;

  /// The plan that serves the call.
  [[nodiscard]] contender find_winner(operator_state& now, const call_problem& problem);

  /// What the tables without the new ones choose, else the runner-up.
  [[nodiscard]] contender find_rival(operator_state& now, const call_problem& problem, const plan& winner,
                                     live_comparison& out);

  /// A plan by one variant alone; none where it cannot serve the call.
  [[nodiscard]] contender plan_by(operator_state& now, const call_problem& problem, const plan& winner,
                                  std::uint32_t variant);

  /// A third variant, that tells which of two is wrong; none where there is none.
  [[nodiscard]] contender find_arbiter(operator_state& now, const call_problem& problem, const plan& winner,
                                       const plan& rival);

  void run(operator_state& now, const contender& by, const copies& into);

  void time_in_turns(operator_state& now, const contender& winner, const contender& rival, const copies& a,
                     const copies& b, live_comparison& out);

  /// How two sets of results differ; empty if they agree.
  [[nodiscard]] std::string difference(const std::vector<std::vector<std::byte>>& one,
                                       const std::vector<std::vector<std::byte>>& other) const;

  [[nodiscard]] static compared_variant describe(const plan& of);

  void require(status result) const;

  device_dispatcher& core_;
  const comparison_request& of_;
  stream on_;
  const live_compare_options& options_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/live_comparer_impl.hpp>
#endif
