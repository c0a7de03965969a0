// SPDX-License-Identifier: MIT
// The bodies of carry_plans.hpp.
#pragma once

#include <array>
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

/// Adds a plan's problem under an operator state for which files may have added axes. What these would be for
/// its calls is not known without arguments: made is what calls without and with all new conditions get.
inline void add_missing(const operator_state& old, operator_state& fresh, const plan& each,
                        std::vector<met_problem>& missing) {
  const operator_description& before = old.op();
  const operator_description& after = fresh.op();
  const auto add = [&](const kept_problem& problem) {
    const std::uint64_t hash = fresh.hash_of(problem);
    if (fresh.plans().find(hash, problem) == nullptr) missing.push_back({problem, hash});
  };
  if (before.added_axes == after.added_axes) return add(each.problem);
  const std::size_t own = after.own_axes();
  std::array<std::int64_t, max_packed> packed{};
  const problem_view known = each.problem;
  for (std::size_t i = 0; i < known.size(); ++i) packed[i] = known[i];
  kept_problem problem;
  problem.assign({packed.data(), own + 1 + after.added_sizes});
  add(problem);
  for (std::size_t i = before.added_axes; i < after.added_axes; ++i) {
    if (after.axes[own + i].kind == axis_kind::type)
      packed[own] |= static_cast<std::int64_t>(std::uint64_t{1} << i);
  }
  problem.assign({packed.data(), own + 1 + after.added_sizes});
  add(problem);
}

SWITCHYARD_FUNCTION bool is_denied(operator_state& by, const met_problem& of) {
  const explanation why = by.explain(expanded_problem{by.op(), of.problem}.view());
  for (const auto& each : why.candidates) {
    if (each.obstacle.starts_with("denied by")) return true;
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
      old->plans().for_each([&](const plan& each) { add_missing(*old, fresh, each, missing); });
    }
    std::size_t made = 0;
    std::size_t refused = 0;
    for (const met_problem& each : missing) {
      if (fresh.plans().find(each.hash, each.problem) != nullptr) continue;
      try {
        std::unique_ptr<plan> again = fresh.make_plan(each.problem, each.hash, loading::allowed);
        const std::unique_ptr<plan> displaced{fresh.plans().insert(again.get())};
        (void)again.release();
        ++made;
      } catch (const driver_error&) {
        return false;
      } catch (const error&) {
        if (fresh.has_failures()) return false;
        // The new files serve it no more: the next call of this problem says so.
        if (!is_denied(fresh, each)) ++refused;
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
