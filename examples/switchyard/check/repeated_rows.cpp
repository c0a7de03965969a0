// SPDX-License-Identifier: MIT
// Finds rows of the same sizes and device in several tables whose winners differ. Only one of the files
// decides, which may be unexpected.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/choosing/table_order.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

#include "check/findings.hpp"
#include "operators.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

struct placed_row {
  const sy::table* from;
  const sy::row_group* group;
  std::size_t row;

  [[nodiscard]] const std::string& winner() const {
    return group->ids[group->row_times(row).front().variant];
  }
};

/// What rows that replace each other have in common besides their sizes. Overlays are meant to win over
/// tables, so a table of a root is compared with tables of roots alone.
[[nodiscard]] std::string kind_of(const sy::table& from, const sy::row_group& group) {
  const fs::path place = fs::absolute(from.path).lexically_normal().parent_path();
  std::string out = place.parent_path().filename() == "tables" ? "table\n" : "overlay\n";
  out += from.device.backend + "\n" + from.device.arch + "\n" + from.device.name + "\n";
  out += (group.timed ? "times" : "winners") + type_key(group.type) + ",";
  for (const std::uint32_t axis : group.axes) out += " " + std::to_string(axis);
  return out;
}

/// Why a table decides over another: the end of a sentence about the other.
[[nodiscard]] std::string describe_order(const sy::table& lost, const sy::table& used) {
  const bool is_decided = sy::comes_before(used, lost);
  if (!is_decided && fs::path{lost.path}.parent_path() != fs::path{used.path}.parent_path())
    return ". Both are " + sy::format_date(used) + ", so the one in the earlier root decides";
  return ", which decides: it is " + sy::format_date(used) + ", this file " + sy::why_lost(lost, used);
}

/// The rows in which a table has another winner than the table that decides.
struct differing_rows {
  std::size_t count = 0;
  placed_row used;
  placed_row lost;
};

}  // namespace

void check_repeated_rows(const known_operator& known, const operator_files& files, report& out) {
  std::unordered_map<std::string, std::vector<placed_row>> rows;  // of the same kind and sizes
  for (const auto& from : files.tables) {
    for (const sy::row_group& group : from->groups) {
      const std::string kind = kind_of(*from, group);
      for (std::size_t row = 0; row < group.row_count(); ++row) {
        std::string key = kind;
        for (const std::int64_t size : group.coordinates(row)) key += "\n" + std::to_string(size);
        rows[key].push_back({from.get(), &group, row});
      }
    }
  }
  std::map<std::pair<std::string, std::string>, differing_rows> differences;  // by the files' paths
  for (const auto& [key, alike] : rows) {
    placed_row used = alike.front();
    for (const placed_row& row : alike) {
      if (sy::comes_before(*row.from, *used.from)) used = row;
    }
    for (const placed_row& row : alike) {
      if (row.from == used.from || row.winner() == used.winner()) continue;
      differing_rows& seen =
          differences.try_emplace({row.from->path, used.from->path}, differing_rows{0, used, row})
              .first->second;
      ++seen.count;
      const bool is_earlier = std::pair{row.group->source_group, row.row} <
                              std::pair{seen.lost.group->source_group, seen.lost.row};
      if (is_earlier) seen = {seen.count, used, row};
    }
  }
  for (const auto& [paths, found] : differences) {
    const auto& [lost, used] = paths;
    out.add(severity::warning, lost,
            (found.count == 1 ? "1 row has" : std::to_string(found.count) + " rows have") +
                std::string{" another winner in "} + used + ", a table for the same device" +
                describe_order(*found.lost.from, *found.used.from) + ". For example, at " +
                format_row(*known.description, *found.lost.group, found.lost.row) + " '" +
                found.lost.winner() + "' is fastest here, and '" + found.used.winner() +
                "' there. Keep one table for each device: `switchyard merge` joins several");
  }
}

}  // namespace tool
