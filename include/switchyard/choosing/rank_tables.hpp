// SPDX-License-Identifier: MIT
// Orders the tables that apply to a device: overlays, then tables for this device, then those of its
// architecture, then those of its backend, the latter two nearest device first. A table is for this device if
// all that it names, of device, architecture and backend, is this device's. Of equally near tables, the one
// measured last comes first.
#pragma once

#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a table's device has the running device's architecture. "gfx942" means it with any features.
[[nodiscard]] bool has_arch(const device_properties& running, const device_properties& measured);

/// How unlike two devices of one backend are, by multiprocessor count and memory bandwidth; 0: alike.
[[nodiscard]] double device_distance(const device_properties& running, const device_properties& measured);

/// How far the running device is from those that a table is for. Both have the same backend. What the table
/// does not name may be any.
[[nodiscard]] table_rank rank_of(const device_properties& running, const device_properties& table);

struct ranked_table {
  std::shared_ptr<const table> source;
  table_rank rank = table_rank::this_device;
  bool overlay = false;
  double distance = 0;  ///< between the devices, within a rank
};

/// Ranks the overlays and tables that may speak about a device: those of its backend, and those of any.
/// Overlays keep the order in which they were named. Tables that nothing ranks keep the order of the search
/// path; those without a date come after those with one.
[[nodiscard]] std::vector<ranked_table> rank_tables(const device_properties& running,
                                                    const std::vector<std::shared_ptr<const table>>& overlays,
                                                    const std::vector<std::shared_ptr<const table>>& tables);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/rank_tables_impl.hpp>
#endif
