// Loads every kernel that may be chosen while axes run over ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/argument_axes.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

/// A range of an axis, both ends included, for prepare().
struct axis_span {
  std::string_view axis;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

namespace detail {

/// At most `most` values of a range, equally far apart in ratio, its ends among them.
[[nodiscard]] inline std::vector<std::int64_t> sample_range(std::int64_t first, std::int64_t last,
                                                            std::size_t most) {
  std::vector<std::int64_t> out;
  const auto count = static_cast<std::uint64_t>(last - first) + 1;
  if (count <= most) {
    for (std::int64_t value = first; value <= last; ++value) out.push_back(value);
    return out;
  }
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

/// An axis and the values of it that are tried.
struct swept_axis {
  std::uint32_t axis = 0;
  std::vector<std::int64_t> values;
};

/// A problem and the axes that run over ranges; checked, and kept to be prepared again after a replacement.
struct prepared_ranges {
  std::vector<std::int64_t> problem;  ///< of the operator's own axes
  std::vector<std::byte> arguments;   ///< of the call, for conditions on them
  std::vector<swept_axis> axes;
  bool is_exhaustive = false;  ///< every problem of the ranges is tried

  friend bool operator==(const prepared_ranges& a, const prepared_ranges& b) noexcept {
    if (a.problem != b.problem || a.arguments != b.arguments || a.axes.size() != b.axes.size()) return false;
    for (std::size_t i = 0; i < a.axes.size(); ++i) {
      if (a.axes[i].axis != b.axes[i].axis || a.axes[i].values != b.axes[i].values) return false;
    }
    return true;
  }
};

/// Problems of all ranges together up to which each one is tried.
inline constexpr std::size_t most_prepared_problems = 65536;

/// Throws call_error invalid_argument for what is no range of a size axis.
[[nodiscard]] inline prepared_ranges read_ranges(const operator_description& op, problem_view problem,
                                                 const void* arguments, std::span<const axis_span> ranges) {
  const auto* const bytes = static_cast<const std::byte*>(arguments);
  prepared_ranges out{{problem.begin(), problem.end()}, {bytes, bytes + op.argument_bytes}, {}, true};
  double problems = 1;
  for (const axis_span& range : ranges) {
    const std::uint32_t axis = find_axis(op, range.axis);
    const bool is_known = axis < op.axes.size();
    if (!is_known || range.first < 0 || range.last < range.first) {
      throw call_error{error_code::invalid_argument,
                       std::string{op.name} + ": prepare: '" + std::string{range.axis} + "' from " +
                           std::to_string(range.first) + " to " + std::to_string(range.last) +
                           (is_known ? " is not a valid range of sizes" : ": the operator has no such axis")};
    }
    out.axes.push_back({axis, {range.first, range.last}});
    problems *= static_cast<double>(range.last - range.first) + 1;
  }
  out.is_exhaustive = problems <= static_cast<double>(most_prepared_problems);
  std::size_t each_axis = most_prepared_problems;
  if (!out.is_exhaustive && !out.axes.empty()) {
    each_axis = static_cast<std::size_t>(__builtin_exp2(16.0 / static_cast<double>(out.axes.size())));
    if (each_axis < 2) each_axis = 2;
  }
  for (swept_axis& each : out.axes) each.values = sample_range(each.values[0], each.values[1], each_axis);
  return out;
}

/// Whether a problem that differs from the ranges' own in swept axes alone lies within the ranges.
[[nodiscard]] inline bool lies_within(const prepared_ranges& ranges, problem_view problem) {
  for (std::size_t i = 0; i < ranges.problem.size(); ++i) {
    const swept_axis* swept = nullptr;
    for (const swept_axis& each : ranges.axes) {
      if (each.axis == i) swept = &each;
    }
    const bool inside = swept != nullptr
                            ? problem[i] >= swept->values.front() && problem[i] <= swept->values.back()
                            : problem[i] == ranges.problem[i];
    if (!inside) return false;
  }
  return true;
}

/// Loads what may be chosen: each problem is decided where there are at most 65,536, else a sample of them
/// that is dense in ratio, and every problem that a table measured. Throws what binding::refuse does.
inline void load_ranges(binding& into, const prepared_ranges& ranges) {
  const auto decide = [&](problem_view own) {
    const packed_problem packed = into.pack(own, ranges.arguments.data());
    const expanded_problem expanded{into.op(), packed};
    const problem_view problem = expanded.view();
    kind_binding& kind = into.kind_of(problem);
    std::unique_ptr<const driver_error> passing;  // the last failure that may pass
    for (;;) {
      const choice chosen = kind.select(problem);
      if (chosen.variant == no_index && passing != nullptr) throw driver_error{*passing};
      if (chosen.variant == no_index) kind.refuse(problem);
      if (kind.prepare(chosen.variant, passing)) return;
    }
  };
  std::vector<std::int64_t> problem = ranges.problem;
  std::vector<std::size_t> digits(ranges.axes.size());
  for (bool more = true; more;) {
    for (std::size_t i = 0; i < digits.size(); ++i)
      problem[ranges.axes[i].axis] = ranges.axes[i].values[digits[i]];
    decide(problem);
    more = false;
    for (std::size_t i = 0; i < digits.size() && !more; ++i) {
      more = ++digits[i] < ranges.axes[i].values.size();
      if (!more) digits[i] = 0;
    }
  }
  if (ranges.is_exhaustive) return;
  const packed_problem packed = into.pack(ranges.problem, ranges.arguments.data());
  const expanded_problem expanded{into.op(), packed};
  for (const bound_group& group : into.kind_of(expanded.view()).rules().groups) {
    if (!matches(group.type, expanded.view())) continue;
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      problem = ranges.problem;
      for (std::size_t i = 0; i < group.axes.size(); ++i)
        problem[group.axes[i]] = group.at[row * group.axes.size() + i];
      if (lies_within(ranges, problem)) decide(problem);
    }
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
