// SPDX-License-Identifier: MIT
// Makes the plans of all problems that an operator state has met for the state that replaces it, so that no
// call pays for them.
#pragma once

#include <atomic>
#include <cstdint>

#include <switchyard/base/compiled.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// A problem that an operator state has met.
struct met_problem {
  kept_problem problem;
  std::uint64_t hash = 0;
};

/// Whether tables deny variants that could serve a problem: that it is not served is then intended.
[[nodiscard]] bool is_denied(operator_state& by, const met_problem& of);

/// Makes the plans that the operator state in use has and `fresh` lacks. False where `fresh` cannot serve one
/// of them because kernels cannot be loaded, and where it serves none of them although no table denies that.
[[nodiscard]] bool carry_plans(reclaimer& readers, const std::atomic<operator_state*>& current,
                               operator_state& fresh);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/carry_plans_impl.hpp>
#endif
