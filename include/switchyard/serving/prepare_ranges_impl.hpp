// SPDX-License-Identifier: MIT
// The bodies of prepare_ranges.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/error.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/prepare_ranges.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::vector<std::int64_t> sample_range(std::int64_t first, std::int64_t last,
                                                           std::size_t most) {
  std::vector<std::int64_t> out;
  const auto count = static_cast<std::uint64_t>(last - first) + 1;
  if (count <= most) {
    for (std::int64_t value = first; value <= last; ++value) out.push_back(value);
    return out;
  }
  if (most < 2) return {last};
  const double low = __builtin_log2(static_cast<double>(first < 1 ? 1 : first));
  const double high = __builtin_log2(static_cast<double>(last));
  out.push_back(first);
  for (std::size_t i = 1; i + 1 < most; ++i) {
    const double at = low + (high - low) * static_cast<double>(i) / static_cast<double>(most - 1);
    const auto value = static_cast<std::int64_t>(__builtin_llround(__builtin_exp2(at)));
    if (value > out.back() && value < last) out.push_back(value);
  }
  out.push_back(last);
  return out;
}

SWITCHYARD_FUNCTION double prepared_ranges::problems() const noexcept {
  double out = 1;
  for (std::size_t i = 0; i < first.size(); ++i) out *= count(i);
  return out;
}

SWITCHYARD_FUNCTION bool prepared_ranges::contains(problem_view problem) const noexcept {
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (problem[i] < first[i] || problem[i] > last[i]) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION prepared_ranges read_ranges(const operator_description& op, problem_view problem,
                                                const void* arguments, std::span<const axis_span> ranges) {
  const auto* const bytes = static_cast<const std::byte*>(arguments);
  prepared_ranges out{
      {problem.begin(), problem.end()}, {problem.begin(), problem.end()}, {bytes, bytes + op.argument_bytes}};
  for (const axis_span& range : ranges) {
    const std::uint32_t axis = find_axis(op, range.axis);
    const bool is_known = axis < op.axes.size();
    if (!is_known || range.first < 0 || range.last < range.first) {
      throw call_error{error_code::invalid_argument,
                       std::string{op.name} + ": prepare: '" + std::string{range.axis} + "' from " +
                           std::to_string(range.first) + " to " + std::to_string(range.last) +
                           (is_known ? " is not a valid range of sizes" : ": the operator has no such axis")};
    }
    out.first[axis] = range.first;
    out.last[axis] = range.last;
  }
  return out;
}

SWITCHYARD_FUNCTION std::vector<swept_axis> sample_axes(const prepared_ranges& of, std::size_t most) {
  std::vector<swept_axis> out;
  for (std::size_t i = 0; i < of.first.size(); ++i) {
    if (of.first[i] < of.last[i]) out.push_back({i, {}});
  }
  auto room = static_cast<double>(most);
  const bool is_whole = of.problems() <= room;
  double share = room;  // values of an axis
  std::size_t left = out.size();
  const auto take = [&](swept_axis& axis, double values) {
    axis.values = sample_range(of.first[axis.axis], of.last[axis.axis], static_cast<std::size_t>(values));
    room /= values;
    --left;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    // Rounding must not lose the last value of an exact root.
    if (!is_whole && left > 0)
      share = __builtin_floor(__builtin_exp2(__builtin_log2(room) / static_cast<double>(left)) + 1e-6);
    for (swept_axis& axis : out) {
      const double count = of.count(axis.axis);
      if (!axis.values.empty() || count > share) continue;
      take(axis, count);
      goes_on = true;
    }
  }
  for (swept_axis& axis : out) {
    if (axis.values.empty()) take(axis, share >= 2 ? share : room >= 2 ? 2 : 1);
  }
  return out;
}

SWITCHYARD_FUNCTION std::size_t load_ranges(operator_state& into, const prepared_ranges& ranges,
                                            std::size_t most) {
  std::size_t decided = 0;
  const auto decide = [&](problem_view own) {
    ++decided;
    const call_problem of = into.problem_of(own, ranges.arguments.data());
    const problem_view problem = of.all();
    type_kernels& kernels = into.kernels_for(problem);
    std::unique_ptr<const driver_error> transient;  // the last failure that may pass
    for (;;) {
      choice chosen = kernels.select_fitting(problem);
      // Where nothing can be computed, a call says so.
      if (chosen.variant == no_index) chosen = kernels.select(problem);
      if (chosen.variant == no_index && transient != nullptr) throw driver_error{*transient};
      if (chosen.variant == no_index) kernels.refuse(problem);
      if (kernels.prepare(chosen.variant, transient)) return;
    }
  };
  const std::vector<swept_axis> axes = sample_axes(ranges, most);
  std::vector<std::int64_t> problem = ranges.first;
  std::vector<std::size_t> digits(axes.size());
  for (bool more = true; more;) {
    for (std::size_t i = 0; i < digits.size(); ++i) problem[axes[i].axis] = axes[i].values[digits[i]];
    decide(problem);
    more = false;
    for (std::size_t i = 0; i < digits.size() && !more; ++i) {
      more = ++digits[i] < axes[i].values.size();
      if (!more) digits[i] = 0;
    }
  }
  if (ranges.problems() <= static_cast<double>(most)) return decided;
  const call_problem first = into.problem_of(ranges.first, ranges.arguments.data());
  const std::vector<indexed_group>& groups = into.kernels_for(first.all()).used_selector().groups;
  const auto visit_measured = [&](const auto& visit) {
    for (const indexed_group& group : groups) {
      if (!matches(group.type, first.all())) continue;
      for (std::size_t row = 0; row < group.row_count(); ++row) {
        problem = ranges.first;
        for (std::size_t i = 0; i < group.axes.size(); ++i)
          problem[group.axes[i]] = group.at[row * group.axes.size() + i];
        if (ranges.contains(problem)) visit();
      }
    }
  };
  std::size_t measured = 0;
  visit_measured([&] { ++measured; });
  const std::size_t step = measured / most + (measured % most != 0 ? 1 : 0);
  std::size_t next = 0;
  visit_measured([&] {
    if (next++ % step == 0) decide(problem);
  });
  return decided;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
