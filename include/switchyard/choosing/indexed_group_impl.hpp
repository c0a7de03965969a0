// SPDX-License-Identifier: MIT
// The bodies of indexed_group.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/row_index.hpp>
#include <switchyard/choosing/row_slots.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION float log_cost(integer_result cost) noexcept {
  return cost.why == fault::none && cost.value >= 1 ? __builtin_log2f(static_cast<float>(cost.value)) : -1;
}

SWITCHYARD_FUNCTION void row_growth::add(const candidate_time& time, float cost) noexcept {
  if (is_known_ || time.cost < 0 || cost < 0) return;
  is_known_ = true;
  others_ = cost - time.cost;
}

SWITCHYARD_FUNCTION std::int64_t metric_dimension::value(problem_view problem,
                                                         joint_program::values& computed) const noexcept {
  if (axis != no_index) return problem[axis];
  const integer_result out = computed.of(quantity);
  return out.why == fault::none ? out.value : 0;
}

SWITCHYARD_FUNCTION bool metric_dimension::place(problem_view problem, joint_program::values& computed,
                                                 float& out) const noexcept {
  const std::int64_t here = value(problem, computed);
  switch (rule.metric) {
    case axis_metric::log:
      out = __builtin_log2f(static_cast<float>(here < 1 ? 1 : here)) / static_cast<float>(rule.unit);
      return true;
    case axis_metric::linear:
      out = static_cast<float>(static_cast<double>(here) / rule.unit);
      if (out > linear_end) out = linear_end;
      if (out < -linear_end) out = -linear_end;
      return true;
    case axis_metric::ignore:
      out = 0;
      return true;
    case axis_metric::exact:
      break;
  }
  std::size_t low = 0;
  std::size_t high = levels.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (levels[middle] < here) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == levels.size() || levels[low] != here) return false;
  out = static_cast<float>(low) * exact_spacing;
  return true;
}

SWITCHYARD_FUNCTION std::uint32_t indexed_group::find_row(problem_view problem) const noexcept {
  std::array<std::int64_t, max_dimensions>
      sizes;  // NOLINT(cppcoreguidelines-pro-type-member-init): read_sizes writes it
  return slots.find(read_sizes(problem, sizes), at.data());
}

SWITCHYARD_FUNCTION problem_view indexed_group::read_sizes(
    problem_view problem, std::array<std::int64_t, max_dimensions>& out) const noexcept {
  const std::size_t count = axes.size();
  for (std::size_t i = 0; i < count; ++i) out[i] = problem[axes[i]];
  return {out.data(), count};
}

SWITCHYARD_FUNCTION bool indexed_group::place(problem_view problem, joint_program::values& computed,
                                              std::span<float> out) const noexcept {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (!dimensions[i].place(problem, computed, out[i])) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION float indexed_group::cost_of(std::uint32_t id,
                                                 joint_program::values& computed) const noexcept {
  const std::uint32_t cost = named[id].cost;
  return cost == no_index ? -1 : log_cost(computed.of(cost));
}

SWITCHYARD_FUNCTION bool indexed_group::is_stale(std::uint32_t id, std::uint32_t candidate) const noexcept {
  const named_candidates& meant = named[id];
  for (std::size_t i = 0; i < meant.candidates.size(); ++i) {
    if (meant.candidates[i] == candidate) return meant.stale[i];
  }
  return false;
}

}  // namespace v0
}  // namespace switchyard
