// SPDX-License-Identifier: MIT
// The bodies of group_query.hpp.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/joint_program.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION row_growth group_query::growth_of(std::uint32_t row) noexcept {
  tally_list tallies;
  carried_times times;  // NOLINT(cppcoreguidelines-pro-type-member-init): carry writes it
  carry(group_.row_times(row), tallies, times);
  return times.growth;
}

SWITCHYARD_FUNCTION std::uint32_t group_query::serving(std::uint32_t id) noexcept {
  const serving_rule& rule = group_.serving[id];
  if (rule.candidate != no_index) {
    const bool works =
        rule.candidate >= unusable_.size() || !unusable_[rule.candidate].load(std::memory_order_relaxed);
    if (works && all_hold(rule.conditions)) return rule.candidate;
    if (!rule.has_others) return no_index;
  }
  return candidates_.first_admissible(group_.named[id].candidates, problem_, unusable_);
}

SWITCHYARD_FUNCTION bool group_query::all_hold(std::uint64_t wanted) noexcept {
  for (std::uint64_t left = wanted & ~known_conditions_; left != 0; left &= left - 1) {
    const integer_result holds =
        computed_.of(group_.conditions[static_cast<std::size_t>(std::countr_zero(left))]);
    if (holds.why == fault::none && holds.value != 0) conditions_ |= left & (0 - left);
  }
  known_conditions_ |= wanted;
  return (wanted & ~conditions_) == 0;
}

SWITCHYARD_FUNCTION float group_query::growth_from(std::uint32_t row, std::uint32_t id,
                                                   float cost) const noexcept {
  for (const candidate_time& time : group_.row_times(row)) {
    if (time.variant == id && time.cost >= 0 && cost >= 0) return __builtin_exp2f(cost - time.cost);
  }
  return 0;
}

}  // namespace v0
}  // namespace switchyard
