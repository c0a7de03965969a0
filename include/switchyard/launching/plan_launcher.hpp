// SPDX-License-Identifier: MIT
// Launches a plan: binds its parameters, makes or looks up parameter blocks, and calls the driver.
//
// Any thread may call, holding a guard of the reclaimer.
#pragma once

#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/plans/bind_parameters.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/workspace.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

class plan_launcher {
 public:
  /// The driver and the reclaimer, which guards what is kept, outlive it.
  plan_launcher(const operator_description& op, device_driver& driver, reclaimer& owner) noexcept
      : op_{op}, driver_{&driver}, owner_{owner}, memory_{&driver} {}

  /// The one launch of a plan for which nothing is left to compute.
  void launch_direct(const plan& of, const void* arguments, stream launch_stream);

  /// The one launch of a plan, whose parameter block may have been kept.
  void launch_kept(operator_state& now, const plan& of, const void* arguments, stream launch_stream);

  /// The one launch of a plan, with per-call values that need no interpreter unless one does not fit.
  void launch_compiled(operator_state& now, const plan& of, const void* arguments, stream launch_stream);

  /// The one launch of a plan, with any per-call values and tensor maps.
  void launch_interpreted(operator_state& now, const plan& of, const void* arguments, stream launch_stream);

  /// Launches all launches of a plan, with a workspace where it has one.
  /// `passed_over`: the variants that were tried for this call before; null: none.
  void run(operator_state& now, const plan& of, const void* arguments, stream launch_stream,
           const workspace& given, const std::vector<std::uint32_t>* passed_over = nullptr);

 protected:
  /// Starts the one launch of a plan, whose parameters are bound.
  [[gnu::always_inline]] inline void start_single(const plan& of, detail::pointer_array& parameters,
                                                  stream launch_stream) {
    // Loaded again: to keep it while parameters are bound would take one instruction more.
    const planned_launch& only = *of.single;
    const status result = driver_->try_launch(only.function, only.geometry, parameters.data(), launch_stream);
    if (result != 0) [[unlikely]]
      launch_again(of, result, parameters, launch_stream);
  }

  /// Whether a call's plan may load kernels. `is_sealed`: a sealed catalog refuses that.
  [[nodiscard]] loading may_load(stream launch_stream, bool is_sealed = false) const;

  /// Takes calls' workspaces from elsewhere than the driver. Called before the first call.
  void take_memory_from(memory_source& source) noexcept { memory_ = &source; }

  const operator_description& op_;
  device_driver* driver_;

  /// Where calls' workspaces come from.
  [[nodiscard]] memory_source& memory() const noexcept { return *memory_; }

 private:
  /// Throws why a plan's only launch failed, and counts it.
  [[noreturn, gnu::cold]] void fail_only_launch(const plan& of, status result, stream launch_stream) const;

  /// Runs a call whose own memory is too small for its plan by the best variant for which it suffices. That
  /// variant's plan is kept with the one at hand. Throws call_error invalid_argument where no variant is
  /// left.
  void run_within(operator_state& now, const plan& of, const void* arguments, stream launch_stream,
                  const workspace& given, const std::vector<std::uint32_t>* passed_over);

  /// Starts the one launch of a plan again, which the driver refused.
  void launch_again(const plan& of, status refused, detail::pointer_array& parameters, stream launch_stream);

  /// Runs a call by the next variant: an argument of this call makes one of the plan's expressions
  /// impossible. Its plan is not kept, since the plan at hand serves other calls of the same problem.
  void run_without(operator_state& now, const plan& unfit, const call_error& problem, const void* arguments,
                   stream launch_stream, const workspace& given,
                   const std::vector<std::uint32_t>* before = nullptr);

  reclaimer& owner_;
  memory_source* memory_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/plan_launcher_impl.hpp>
#endif
