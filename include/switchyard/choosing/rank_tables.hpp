// Which tables speak about a device, most specific first: overlays, then tables for this device, whether they
// name it, its architecture, its backend or nothing, then tables of its architecture and of its backend,
// each nearest first. Of those that are equally specific or near, the one measured last comes first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/target.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a table's device has the running device's architecture. "gfx942" means it with any features.
[[nodiscard]] inline bool has_arch(const device_properties& running, const device_properties& measured) {
  if (running.backend != "hip") return measured.arch == running.arch;
  return detail::before_features(measured.arch) == detail::before_features(running.arch) &&
         detail::has_features(running.arch, measured.arch);
}

/// How unlike two devices of one backend are, by multiprocessor count and memory bandwidth; 0: alike.
[[nodiscard]] inline double device_distance(const device_properties& running,
                                            const device_properties& measured) {
  double total = 0;
  for (const std::string_view name : {"multiprocessors", "memory_bandwidth"}) {
    const auto here = static_cast<double>(running.attribute(name));
    const auto there = static_cast<double>(measured.attribute(name));
    total += here > 0 && there > 0 ? std::abs(std::log2(here / there)) : 1.0;
  }
  return total;
}

/// How far the running device is from those that a table is for. Both have the same backend. What the table
/// does not name may be any.
[[nodiscard]] inline table_rank rank_of(const device_properties& running, const device_properties& table) {
  if (!table.arch.empty() && !has_arch(running, table)) return table_rank::same_backend;
  return table.name.empty() || table.name == running.name ? table_rank::this_device : table_rank::same_arch;
}

struct ranked_table {
  std::shared_ptr<const table> source;
  table_rank rank = table_rank::this_device;
  bool overlay = false;
  double distance = 0;  ///< between the devices, within a rank
};

/// Ranks the overlays and tables that may speak about a device: those of its backend, and those of any.
/// Overlays keep their order, which whoever named them chose. Tables that nothing ranks keep theirs, that of
/// the search path; those without a date come after those with one.
[[nodiscard]] inline std::vector<ranked_table> rank_tables(
    const device_properties& running, const std::vector<std::shared_ptr<const table>>& overlays,
    const std::vector<std::shared_ptr<const table>>& tables) {
  std::vector<ranked_table> out;
  const auto add = [&](const std::shared_ptr<const table>& each, bool overlay) {
    const device_properties& device = each->device;
    if (!device.backend.empty() && device.backend != running.backend) return;
    const table_rank rank = rank_of(running, device);
    if (rank != table_rank::this_device && !each->other_devices) return;
    out.push_back({each, rank, overlay, overlay ? 0 : device_distance(running, device)});
  };
  for (const auto& each : overlays) add(each, true);
  const auto first_of_others = static_cast<std::ptrdiff_t>(out.size());
  for (const auto& each : tables) add(each, false);
  std::stable_sort(out.begin() + first_of_others, out.end(),
                   [](const ranked_table& a, const ranked_table& b) {
                     if (a.rank != b.rank) return a.rank < b.rank;
                     if (a.rank == table_rank::this_device) return comes_before(*a.source, *b.source);
                     if (a.distance < b.distance || b.distance < a.distance) return a.distance < b.distance;
                     return a.source->measured_on > b.source->measured_on;
                   });
  return out;
}

}  // namespace v0
}  // namespace switchyard
