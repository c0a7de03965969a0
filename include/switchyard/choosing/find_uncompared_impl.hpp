// SPDX-License-Identifier: MIT
// The bodies of find_uncompared.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/find_uncompared.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// The types that rows of a group were measured with: its own type, and the values that other type axes had.
class measured_types {
 public:
  /// Axes that neither the type nor the record names are not known, and exclude nothing.
  measured_types(const operator_description& op, const std::vector<axis_value>& type,
                 const std::vector<measured_values>& recorded)
      : op_{op}, values_(op.axes.size()) {
    for (const axis_value& held : type) values_[held.axis] = {held.value};
    for (const measured_values& with : recorded) values_[with.axis] = with.values;
    for (std::size_t axis = 0; axis < op.axes.size(); ++axis) {
      if (axis < expression::max_axes_read && !values_[axis].empty()) known_ |= std::uint64_t{1} << axis;
    }
  }

  /// Whether a variant may have served one of these types. Conditions that also read sizes or arguments are
  /// taken to hold.
  [[nodiscard]] bool may_serve(const variant& asked, const device_properties& device) const {
    for (const axis_value& wanted : asked.type) {
      const std::vector<std::int64_t>& known = values_[wanted.axis];
      if (!known.empty() && std::find(known.begin(), known.end(), wanted.value) == known.end()) return false;
    }
    return detail::all_of(asked.conditions.begin(), asked.conditions.end(), [&](const condition& required) {
      return may_hold(required.value, device.attributes);
    });
  }

 private:
  static constexpr std::size_t max_combinations = 1024;

  /// Whether a condition holds for some combination of the values, or cannot be decided by them.
  [[nodiscard]] bool may_hold(const expression& asked, const attribute_values& attributes) const {
    const std::uint64_t axes = asked.axes_read();
    if ((axes & ~known_) != 0 || asked.reads_fields()) return true;
    std::vector<std::size_t> read;
    std::size_t combinations = 1;
    for (std::uint32_t axis = 0; axes >> axis != 0 && axis < expression::max_axes_read; ++axis) {
      if ((axes >> axis & 1U) == 0) continue;
      read.push_back(axis);
      combinations *= values_[axis].size();
      if (combinations > max_combinations) return true;
    }
    std::vector<std::int64_t> problem(op_.axes.size());
    for (std::size_t i = 0; i < combinations; ++i) {
      std::size_t rest = i;
      for (const std::size_t axis : read) {
        problem[axis] = values_[axis][rest % values_[axis].size()];
        rest /= values_[axis].size();
      }
      const integer_result holds = asked.evaluate({problem, attributes, {}, nullptr});
      if (holds.why == fault::none && holds.value != 0) return true;
    }
    return false;
  }

  const operator_description& op_;
  std::vector<std::vector<std::int64_t>> values_;  // by axis; none: not known
  std::uint64_t known_ = 0;                        // the axes that have values here, a bit each
};

SWITCHYARD_COLD std::vector<std::uint32_t> find_uncompared(const candidate_set& set,
                                                           const std::vector<axis_value>& type,
                                                           const std::vector<measured_values>& recorded,
                                                           std::span<const std::uint32_t> listed) {
  std::vector<std::uint32_t> out;
  const measured_types measured{*set.op, type, recorded};
  std::vector<bool> has_time(set.candidates.size());
  for (const std::uint32_t index : listed) has_time[index] = true;
  for (std::uint32_t i = 0; i < set.candidates.size(); ++i) {
    const variant& found = *set.candidates[i].variant;
    if (!has_time[i] && !contradict(found.type, type) && !measured.may_serve(found, set.device))
      out.push_back(i);
  }
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
