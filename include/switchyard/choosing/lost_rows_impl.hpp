// SPDX-License-Identifier: MIT
// The bodies of lost_rows.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD std::vector<lost_row> find_lost_rows(const selector& from, const indexed_group& group,
                                                     std::uint32_t row) {
  std::vector<lost_row> out;
  const std::uint32_t used = group.origins[row].table;
  for (const indexed_group::repeated_row& repeated : group.repeated) {
    if (repeated.used != row) continue;
    const std::uint32_t number = repeated.lost.table;
    const table& lost = *from.tables[number];
    std::string why = why_lost(lost, *from.tables[used]);
    if (used < from.overlay_count && number != used)
      why = format_date(lost) + (number < from.overlay_count ? ", a later overlay" : ", under an overlay");
    out.push_back({lost.path, repeated.lost.group, repeated.lost.row, std::move(why)});
  }
  return out;
}

SWITCHYARD_COLD std::string format_lost(const std::vector<lost_row>& lost) {
  if (lost.empty()) return {};
  std::string out = "; also in " + lost.front().table + " (" + lost.front().why + ")";
  if (lost.size() > 1) out += " and " + std::to_string(lost.size() - 1) + " more";
  return out;
}

}  // namespace v0
}  // namespace switchyard
