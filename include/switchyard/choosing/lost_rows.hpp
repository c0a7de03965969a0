// Rows that are not used because another row of the same type and sizes comes before them, and why it does.
//
// Needs no device. Allocates text; for messages and tools, not for the launch path.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/choosing/bound_group.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// A row of the sizes of one that is used.
struct lost_row {
  std::string table;  ///< path
  std::uint32_t group = 0;
  std::uint32_t row = 0;
  std::string why;  ///< "measured 2026-11-20, older"
};

/// The rows that a row of a group takes the place of, in the order of their tables.
[[nodiscard]] inline std::vector<lost_row> find_lost_rows(const selector& from, const bound_group& group,
                                                          std::uint32_t row) {
  std::vector<lost_row> out;
  const std::uint32_t used = group.origins[row].table;
  for (const bound_group::repeated_row& each : group.repeated) {
    if (each.used != row) continue;
    const std::uint32_t number = each.lost.table;
    const table& lost = *from.tables[number];
    std::string why = why_lost(lost, *from.tables[used]);
    if (used < from.overlay_count && number != used)
      why = format_date(lost) + (number < from.overlay_count ? ", a later overlay" : ", under an overlay");
    out.push_back({lost.path, each.lost.group, each.lost.row, std::move(why)});
  }
  return out;
}

/// "; also in b.json (measured 2026-11-20, older) and 2 more": the first of them, and how many there are.
[[nodiscard]] inline std::string format_lost(const std::vector<lost_row>& lost) {
  if (lost.empty()) return {};
  std::string out = "; also in " + lost.front().table + " (" + lost.front().why + ")";
  if (lost.size() > 1) out += " and " + std::to_string(lost.size() - 1) + " more";
  return out;
}

}  // namespace v0
}  // namespace switchyard
