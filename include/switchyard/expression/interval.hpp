// SPDX-License-Identifier: MIT
// Bounds of an integer expression over ranges of axes. They hold at every point of the ranges, not only at
// samples.
//
// Points at which the expression faults are ignored. Bounds may be wider than the values are, never narrower;
// where each axis has one value they are exact. Allocates; not for the path of a call.
#pragma once

#include <cstdint>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>

namespace switchyard {
inline namespace v0 {

/// The integers from `low` to `high`; none where `low` is greater.
struct interval {
  std::int64_t low = 0;
  std::int64_t high = -1;

  [[nodiscard]] bool is_empty() const noexcept { return low > high; }
  [[nodiscard]] bool is_single() const noexcept { return low == high; }
  [[nodiscard]] bool contains(std::int64_t value) const noexcept { return low <= value && value <= high; }
};

/// Bounds of an expression that reads no arguments, or any value where it does. `axes` has a range for each
/// axis, `attributes` are the device's.
[[nodiscard]] interval bound(const expression& of, std::span<const interval> axes,
                             std::span<const std::int64_t> attributes);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/interval_impl.hpp>
#endif
