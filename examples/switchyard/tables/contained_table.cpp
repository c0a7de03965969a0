// SPDX-License-Identifier: MIT
#include "tables/contained_table.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <switchyard/files/table.hpp>

#include "operators.hpp"
#include "tables/measured.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] std::string name_of(const sy::row_group& group, std::size_t row) {
  std::map<std::uint32_t, std::int64_t> sizes;
  for (std::size_t i = 0; i < group.axes.size(); ++i) sizes[group.axes[i]] = group.coordinates(row)[i];
  std::string out = (group.timed ? "times" : "winners") + type_key(group.type) + ",";
  for (const auto& [axis, size] : sizes) out += " " + std::to_string(axis) + "=" + std::to_string(size);
  return out;
}

[[nodiscard]] std::string bits_of(float number) {
  return std::to_string(std::bit_cast<std::uint32_t>(number));
}

/// A row's content as text: each variant's time and blob, the preferred variant, the uncertainty.
[[nodiscard]] std::string content_of(const sy::row_group& group, std::size_t row) {
  std::vector<std::string> times;
  for (const sy::measured_time& time : group.row_times(row)) {
    const std::string blob = time.variant < group.blobs.size() ? group.blobs[time.variant] : std::string{};
    times.push_back(group.ids[time.variant] + "\n" + bits_of(time.microseconds) + "\n" + blob + "\n");
  }
  std::string out = times.front() + bits_of(static_cast<float>(group.row_uncertainty(row))) + "\n";
  std::sort(times.begin(), times.end());
  for (const std::string& line : times) out += line;
  return out;
}

[[nodiscard]] bool contains(const std::vector<sy::measured_values>& whole,
                            const std::vector<sy::measured_values>& part) {
  return std::all_of(part.begin(), part.end(), [&whole](const sy::measured_values& values) {
    return std::any_of(whole.begin(), whole.end(), [&values](const sy::measured_values& has) {
      return has.axis == values.axis &&
             std::includes(has.values.begin(), has.values.end(), values.values.begin(), values.values.end());
    });
  });
}

}  // namespace

named_rows name_rows(const table_file& of) {
  named_rows out;
  for (const sy::row_group& group : of.content.groups) {
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      named_row& into = out[name_of(group, row)];  // a file may have it twice
      into.content += content_of(group, row);
      into.group = &group;
    }
  }
  return out;
}

bool contains(const table_file& whole, const named_rows& its_rows, const table_file& part,
              const named_rows& part_rows) {
  const bool has_runs = std::all_of(part.measured.begin(), part.measured.end(), [&whole](const auto& run) {
    return std::any_of(whole.measured.begin(), whole.measured.end(),
                       [&run](const auto& has) { return is_same_run(has, run); });
  });
  return has_runs && std::all_of(part_rows.begin(), part_rows.end(), [&its_rows](const auto& row) {
           const auto found = its_rows.find(row.first);
           return found != its_rows.end() && found->second.content == row.second.content &&
                  contains(found->second.group->measured_with, row.second.group->measured_with);
         });
}

}  // namespace tool
