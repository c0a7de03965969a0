// SPDX-License-Identifier: MIT
// The bodies of call_checker.hpp.
#pragma once

#include <atomic>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/launching/call_checker.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD void call_checker::check(problem_view own, const void* arguments, stream on,
                                         const std::string& illegal) {
  const reclaimer::guard guard{core_.reclaimer_};
  operator_state& now = *core_.current_.load(std::memory_order_seq_cst);
  if (!illegal.empty()) core_.refuse(own, illegal);
  if (core_.op_.check_memory != nullptr && now.device().backend == "host")
    core_.require_memory(own, arguments);
  core_.check_call(now, own, arguments, on);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
