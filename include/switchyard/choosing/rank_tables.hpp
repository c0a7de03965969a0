// Which tables speak about a device, most specific first: overlays, then tables of this device, of its
// architecture, and of its backend, each nearest first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/error.hpp>
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

/// How far from the running device a table was measured. Both have the same backend.
[[nodiscard]] inline table_rank rank_of(const device_properties& running, const device_properties& measured) {
  if (!has_arch(running, measured)) return table_rank::same_backend;
  return measured.name == running.name ? table_rank::this_device : table_rank::same_arch;
}

struct ranked_table {
  std::shared_ptr<const table> source;
  table_rank rank = table_rank::this_device;
  bool overlay = false;
  double distance = 0;  ///< between the devices, within a rank
};

/// Ranks the overlays and tables that are of the running device's backend. A table that names no device
/// becomes a warning.
[[nodiscard]] inline std::vector<ranked_table> rank_tables(
    const device_properties& running, const std::vector<std::shared_ptr<const table>>& overlays,
    const std::vector<std::shared_ptr<const table>>& tables, std::vector<std::string>& warned) {
  std::vector<ranked_table> out;
  for (const auto& each : overlays) {
    // An overlay wins over all tables, whatever device it was made for, unless it is of another backend.
    const device_properties& device = each->device;
    if (!device.backend.empty() && device.backend != running.backend) continue;
    const table_rank rank = device.name.empty() ? table_rank::this_device : rank_of(running, device);
    out.push_back({each, rank, true, 0});
  }
  const auto first_of_others = static_cast<std::ptrdiff_t>(out.size());
  for (const auto& each : tables) {
    if (each->device.backend.empty()) {
      warned.push_back("[switchyard." + std::to_string(static_cast<int>(error_code::invalid_entry)) + "] " +
                       each->path + ": /device/backend: is missing, so the table is not used. Name the " +
                       "device that it was measured on");
    }
    if (each->device.backend != running.backend) continue;
    out.push_back({each, rank_of(running, each->device), false, device_distance(running, each->device)});
  }
  std::stable_sort(out.begin() + first_of_others, out.end(),
                   [](const ranked_table& a, const ranked_table& b) {
                     return a.rank != b.rank ? a.rank < b.rank
                                             : a.rank != table_rank::this_device && a.distance < b.distance;
                   });
  return out;
}

}  // namespace v0
}  // namespace switchyard
