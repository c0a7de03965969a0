// SPDX-License-Identifier: MIT
// The bodies of rank_tables.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/stable_order.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool has_arch(const device_properties& running, const device_properties& measured) {
  if (running.backend != "hip") return measured.arch == running.arch;
  return detail::before_features(measured.arch) == detail::before_features(running.arch) &&
         detail::has_features(running.arch, measured.arch);
}

SWITCHYARD_FUNCTION double device_distance(const device_properties& running,
                                           const device_properties& measured) {
  double total = 0;
  for (const std::string_view name : {"multiprocessors", "memory_bandwidth"}) {
    const auto here = static_cast<double>(running.attribute(name));
    const auto there = static_cast<double>(measured.attribute(name));
    total += here > 0 && there > 0 ? std::abs(std::log2(here / there)) : 1.0;
  }
  return total;
}

SWITCHYARD_FUNCTION table_rank rank_of(const device_properties& running, const device_properties& table) {
  if (!table.arch.empty() && !has_arch(running, table)) return table_rank::same_backend;
  return table.name.empty() || table.name == running.name ? table_rank::this_device : table_rank::same_arch;
}

SWITCHYARD_FUNCTION std::vector<ranked_table> rank_tables(
    const device_properties& running, const std::vector<std::shared_ptr<const table>>& overlays,
    const std::vector<std::shared_ptr<const table>>& tables) {
  std::vector<ranked_table> out;
  std::vector<ranked_table> others;
  const auto add = [&](const std::shared_ptr<const table>& file, bool overlay) {
    const device_properties& device = file->device;
    if (!device.backend.empty() && device.backend != running.backend) return;
    const table_rank rank = rank_of(running, device);
    if (rank != table_rank::this_device && !file->other_devices) return;
    (overlay ? out : others).push_back({file, rank, overlay, overlay ? 0 : device_distance(running, device)});
  };
  for (const auto& overlay_table : overlays) add(overlay_table, true);
  for (const auto& one : tables) add(one, false);
  const auto comes_first = [](const ranked_table& a, const ranked_table& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.rank == table_rank::this_device) return comes_before(*a.source, *b.source);
    if (a.distance < b.distance || b.distance < a.distance) return a.distance < b.distance;
    return a.source->measured_on > b.source->measured_on;
  };
  for (const std::uint32_t number : detail::stable_order(others, comes_first)) out.push_back(others[number]);
  return out;
}

}  // namespace v0
}  // namespace switchyard
