// SPDX-License-Identifier: MIT
// The bodies of table_order.hpp.
#pragma once

#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// How much of a device a table names: tables that name more come first.
[[nodiscard]] inline int specificity(const device_properties& table) noexcept {
  return (table.name.empty() ? 0 : 4) + (table.arch.empty() ? 0 : 2) + (table.backend.empty() ? 0 : 1);
}

SWITCHYARD_FUNCTION bool comes_before(const table& one, const table& other) noexcept {
  const int of_one = specificity(one.device);
  const int of_other = specificity(other.device);
  return of_one != of_other ? of_one > of_other : one.measured_on > other.measured_on;
}

SWITCHYARD_FUNCTION std::string format_date(const table& of) {
  return of.measured_on.empty() ? "undated" : "measured " + of.measured_on;
}

SWITCHYARD_FUNCTION std::string why_lost(const table& lost, const table& used) {
  const std::string date = format_date(lost);
  if (&lost == &used) return date + ", later in the same file";
  if (specificity(lost.device) != specificity(used.device)) return date + ", its device names less";
  if (lost.measured_on != used.measured_on) return lost.measured_on.empty() ? date : date + ", older";
  const auto folder_of = [](std::string_view path) { return path.substr(0, path.rfind('/') + 1); };
  return date + " too, " +
         (folder_of(lost.path) == folder_of(used.path) ? "a later name" : "in a later root");
}

}  // namespace v0
}  // namespace switchyard
