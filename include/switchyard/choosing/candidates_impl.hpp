// SPDX-License-Identifier: MIT
// The bodies of candidates.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/workspace_need.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool candidate::fits_problem(const evaluation& values) const noexcept {
  for (const expression* value : shared) {
    const integer_result bytes = value->evaluate(values);
    if (bytes.why != fault::none || bytes.value > max_shared) return false;
  }
  if (max_workspace == choice_limits::any_workspace) return true;
  const std::int64_t need = workspace_need(*variant, values);
  return need >= 0 && need <= max_workspace;
}

SWITCHYARD_FUNCTION bool candidate_pin::applies(problem_view problem) const noexcept {
  if (!matches(type, problem)) return false;
  for (const axis_range& range : at) {
    if (problem[range.axis] < range.first || problem[range.axis] > range.last) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION bool candidate_set::admissible(std::uint32_t index, problem_view problem,
                                                   unusable_flags unusable) const noexcept {
  if (index < unusable.size() && unusable[index].load(std::memory_order_relaxed)) return false;
  const candidate& found = candidates[index];
  if (!found.fits || !matches(found.variant->type, problem)) return false;
  for (const std::uint32_t denied : found.denials) {
    if (matches(denials[denied].type, problem)) return false;
  }
  const evaluation values{problem, device.attributes, {}, nullptr};
  for (const condition& condition : found.variant->conditions) {
    const integer_result holds = condition.value.evaluate(values);
    if (holds.why != fault::none || holds.value == 0) return false;
  }
  return found.fits_problem(values);
}

SWITCHYARD_FUNCTION std::uint32_t candidate_set::first_admissible(const std::vector<std::uint32_t>& list,
                                                                  problem_view problem,
                                                                  unusable_flags unusable) const noexcept {
  for (const std::uint32_t index : list) {
    if (admissible(index, problem, unusable)) return index;
  }
  return no_index;
}

}  // namespace v0
}  // namespace switchyard
