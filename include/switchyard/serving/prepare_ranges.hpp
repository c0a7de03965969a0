// SPDX-License-Identifier: MIT
// Loads every kernel that may be chosen for problems whose axes lie in given ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_state.hpp>

namespace switchyard {
inline namespace v0 {

/// A range of an axis, both ends included, for prepare().
struct axis_span {
  std::string_view axis;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

namespace detail {

/// At most `most` values of a range, equally far apart in ratio, its ends among them; its last one alone
/// where `most` is 1.
[[nodiscard]] std::vector<std::int64_t> sample_range(std::int64_t first, std::int64_t last, std::size_t most);

/// An axis and the values of it that are tried.
struct swept_axis {
  std::size_t axis = 0;
  std::vector<std::int64_t> values;
};

/// The problems of a prepare(), for the operator's own axes; checked, and kept to be prepared again after a
/// replacement.
struct prepared_ranges {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;    ///< included; the first one where an axis does not run
  std::vector<std::byte> arguments;  ///< of the call, for conditions on them

  /// How many values an axis takes.
  [[nodiscard]] double count(std::size_t axis) const noexcept {
    return static_cast<double>(last[axis] - first[axis]) + 1;
  }
  /// How many problems there are.
  [[nodiscard]] double problems() const noexcept;
  [[nodiscard]] bool contains(problem_view problem) const noexcept;
};

/// Problems up to which each one is tried when ranges are prepared, and a bound of those that are.
inline constexpr std::size_t max_prepared_problems = 65536;

/// Throws call_error invalid_argument for what is no range of a size axis.
[[nodiscard]] prepared_ranges read_ranges(const operator_description& op, problem_view problem,
                                          const void* arguments, std::span<const axis_span> ranges);

/// The values that are tried of the axes that run: all, where that makes at most `most` problems. Else `most`
/// is dealt among the axes, whose ends come first; what short ones leave over is for the others.
[[nodiscard]] std::vector<swept_axis> sample_axes(const prepared_ranges& of, std::size_t most);

/// Loads what may be chosen: each problem is decided where there are at most `most`, else as many of them,
/// dense in ratio, and up to as many that a table measured. Returns how many were decided. Throws what
/// operator_state::refuse does.
std::size_t load_ranges(operator_state& into, const prepared_ranges& ranges,
                        std::size_t most = max_prepared_problems);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/prepare_ranges_impl.hpp>
#endif
