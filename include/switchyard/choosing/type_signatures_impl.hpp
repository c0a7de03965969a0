// SPDX-License-Identifier: MIT
// The bodies of type_signatures.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/type_signatures.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION void type_signatures::add(const std::vector<axis_value>& type) {
  for (const axis_value& wanted : type) {
    std::size_t at = 0;
    while (at < axes_.size() && axes_[at].axis != wanted.axis) ++at;
    if (at == axes_.size()) axes_.push_back({wanted.axis, {}});
    std::vector<std::int64_t>& values = axes_[at].values;
    const std::size_t place = count_below(values, wanted.value);
    if (place == values.size() || values[place] != wanted.value)
      values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), wanted.value);
  }
}

SWITCHYARD_FUNCTION type_signature type_signatures::of(problem_view problem) const noexcept {
  type_signature out;
  for (const named_axis& named : axes_) {
    if (named.axis < own_axes_) {
      out.values[named.axis] = number_of(named, problem[named.axis]);
    } else if (problem[named.axis] != 0) {
      out.conditions |= bit_of(named.axis);
    }
  }
  return out;
}

SWITCHYARD_FUNCTION bool type_signatures::holds(const std::vector<axis_value>& type,
                                                const type_signature& signature) const noexcept {
  for (const axis_value& wanted : type) {
    if (wanted.axis >= own_axes_) {
      if (((signature.conditions & bit_of(wanted.axis)) != 0) != (wanted.value != 0)) return false;
      continue;
    }
    for (const named_axis& named : axes_) {
      if (named.axis == wanted.axis && number_of(named, wanted.value) != signature.values[named.axis])
        return false;
    }
  }
  return true;
}

SWITCHYARD_FUNCTION std::size_t type_signatures::count_below(const std::vector<std::int64_t>& values,
                                                             std::int64_t limit) noexcept {
  std::size_t first = 0;
  for (std::size_t left = values.size(); left > 0;) {
    const std::size_t half = left / 2;
    if (values[first + half] < limit) {
      first += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return first;
}

SWITCHYARD_FUNCTION std::uint32_t type_signatures::number_of(const named_axis& axis,
                                                             std::int64_t value) noexcept {
  const std::size_t place = count_below(axis.values, value);
  const bool is_named = place < axis.values.size() && axis.values[place] == value;
  return is_named ? static_cast<std::uint32_t>(place) + 1 : 0;
}

}  // namespace v0
}  // namespace switchyard
