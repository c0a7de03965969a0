// SPDX-License-Identifier: MIT
// The bodies of select.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION choice selector::select(problem_view asked, unusable_flags unusable) const noexcept {
  const padded_problem padded{*op, asked};
  const problem_view problem = padded.view();
  if (is_forced) return first_of(forced, problem, unusable, reason::forced);
  for (std::size_t i = 0; i < pins.size(); ++i) {
    if (!pins[i].applies(problem)) continue;
    choice out = first_of(pins[i].candidates, problem, unusable, reason::pinned);
    out.pin = static_cast<std::uint32_t>(i);
    if (out.variant != no_index) return out;
  }
  choice far;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!matches(groups[i].type, problem) || left_out(groups[i], problem, unusable) != no_index) continue;
    choice out = group_query{*this, groups[i], problem, unusable}.choose();
    if (out.variant == no_index) continue;
    out.group = static_cast<std::uint32_t>(i);
    if (!groups[i].timed) out.microseconds = 0;
    if (out.why != reason::extrapolated) return graded(out);
    if (far.variant == no_index) far = out;
  }
  return far.variant != no_index ? graded(far) : heuristic(problem, unusable);
}

SWITCHYARD_FUNCTION choice selector::first_of(const std::vector<std::uint32_t>& list, problem_view problem,
                                              unusable_flags unusable, reason why) const noexcept {
  choice out;
  out.variant = first_admissible(list, problem, unusable);
  if (out.variant != no_index) out.why = why;
  return out;
}

SWITCHYARD_FUNCTION choice selector::graded(choice out) noexcept {
  if (out.rank != table_rank::this_device) out.why = reason::other_device;
  return out;
}

SWITCHYARD_FUNCTION choice selector::heuristic(problem_view problem, unusable_flags unusable) const noexcept {
  choice out;
  for (const candidate_class& same_type : classes) {
    if (!matches(same_type.type, problem)) continue;
    for (const std::uint32_t index : same_type.candidates) {
      if (index >= out.variant) break;
      if (!admissible(index, problem, unusable)) continue;
      out.variant = index;
      out.why = reason::heuristic;
      break;
    }
  }
  if (out.variant != no_index && candidates[out.variant].variant->has_time())
    out.variant = least_cost(out.variant, problem, unusable);
  return out;
}

SWITCHYARD_FUNCTION std::uint32_t selector::least_cost(std::uint32_t first, problem_view problem,
                                                       unusable_flags unusable) const noexcept {
  const evaluation values{problem, device.attributes, {}, nullptr};
  std::uint32_t best = first;
  double least = candidates[first].variant->time_at(values);
  for (const candidate_class& same_type : classes) {
    if (!matches(same_type.type, problem)) continue;
    for (const std::uint32_t index : same_type.candidates) {
      const variant& of = *candidates[index].variant;
      if (index == best || !of.has_time()) continue;
      const double cost = of.time_at(values);
      const bool is_less = cost < least || (cost == least && index < best);
      if (!is_less || !admissible(index, problem, unusable)) continue;
      best = index;
      least = cost;
    }
  }
  return best;
}

}  // namespace v0
}  // namespace switchyard
