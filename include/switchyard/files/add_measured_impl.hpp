// SPDX-License-Identifier: MIT
// The bodies of add_measured.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/add_measured.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void add_measured(std::vector<measured_values>& into, std::uint32_t axis,
                                  std::span<const std::int64_t> values) {
  auto found =
      std::lower_bound(into.begin(), into.end(), axis,
                       [](const measured_values& entry, std::uint32_t of) { return entry.axis < of; });
  if (found == into.end() || found->axis != axis) found = into.insert(found, {axis, {}});
  for (const std::int64_t value : values) {
    const auto place = std::lower_bound(found->values.begin(), found->values.end(), value);
    if (place == found->values.end() || *place != value) found->values.insert(place, value);
  }
}

}  // namespace v0
}  // namespace switchyard
