// SPDX-License-Identifier: MIT
// The bodies of carry_plans.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/error.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/serving/carry_plans.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Adds a plan's problem under an operator state for which files may have added conditions on arguments.
/// Whether these hold for its calls is not known without arguments: made is what calls without and with all
/// new conditions get.
inline void add_missing(const operator_state& old, operator_state& fresh, const plan& carried,
                        std::vector<met_problem>& missing) {
  const std::size_t before = old.op().added_count;
  const std::size_t after = fresh.op().added_count;
  const auto add = [&](std::uint64_t conditions) {
    if (fresh.plans().find(carried.hash, carried.problem.own(), conditions) != nullptr) return;
    met_problem& added = missing.emplace_back();
    added.problem.assign(carried.problem.own(), conditions);
    added.hash = carried.hash;
  };
  std::uint64_t conditions = carried.problem.conditions();
  add(conditions);
  if (before == after) return;
  for (std::size_t i = before; i < after; ++i) conditions |= std::uint64_t{1} << i;
  add(conditions);
}

SWITCHYARD_FUNCTION bool is_denied(operator_state& by, const met_problem& of) {
  const explanation why = by.explain(by.problem_of(of.problem).all());
  for (const auto& candidate : why.candidates) {
    if (candidate.obstacle.starts_with("denied by")) return true;
  }
  return false;
}

SWITCHYARD_FUNCTION bool carry_plans(reclaimer& readers, const std::atomic<operator_state*>& current,
                                     operator_state& fresh) {
  constexpr int max_rounds = 4;  // callers may meet problems all the time
  for (int round = 0; round < max_rounds; ++round) {
    std::vector<met_problem> missing;
    {
      // Nothing is loaded under the guard: plans that callers displace meanwhile would pile up.
      const reclaimer::guard guard{readers};
      operator_state* const old = current.load(std::memory_order_seq_cst);
      if (old == nullptr) return true;
      old->plans().for_each([&](const plan& carried) { add_missing(*old, fresh, carried, missing); });
    }
    std::size_t made = 0;
    std::size_t refused = 0;
    for (const met_problem& met : missing) {
      const call_problem problem = fresh.problem_of(met.problem);
      if (fresh.plans().find(met.hash, problem.own(), problem.conditions()) != nullptr) continue;
      try {
        std::unique_ptr<plan> again = fresh.make_plan(problem, met.hash, loading::allowed);
        const std::unique_ptr<plan> displaced{fresh.plans().insert(again.get())};
        (void)again.release();
        ++made;
      } catch (const driver_error&) {
        return false;
      } catch (const error&) {
        if (fresh.has_failures()) return false;
        // The new files serve it no more: the next call of this problem says so.
        if (!is_denied(fresh, met)) ++refused;
      }
    }
    if (refused > 0 && refused == missing.size() && round == 0) return false;
    if (made == 0) break;
  }
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
