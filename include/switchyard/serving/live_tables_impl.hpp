// SPDX-License-Identifier: MIT
// The bodies of live_tables.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/put_row.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/serving/live_tables.hpp>
#include <switchyard/version.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

struct table_in_making {
  const operator_description* op = nullptr;
  table content;
  bool has_match = false;
  std::size_t rows = 0;
  std::uint64_t least_samples = 0;
  std::uint64_t max_samples = 0;
};

/// A device's name as that of a file.
[[nodiscard]] inline std::string file_name_of(std::string_view device) {
  std::string out;
  for (const char character : device) {
    const bool is_upper = character >= 'A' && character <= 'Z';
    const bool is_kept =
        is_upper || (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9');
    if (is_kept) {
      out += is_upper ? static_cast<char>(character - 'A' + 'a') : character;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "device" : out;
}

[[nodiscard]] inline table_in_making& table_of(std::vector<table_in_making>& all,
                                               const operator_description& op,
                                               const device_properties& device) {
  for (table_in_making& made : all) {
    if (made.op->name == op.name && made.content.device.name == device.name &&
        made.content.device.attributes == device.attributes)
      return made;
  }
  table_in_making& made = all.emplace_back();
  made.op = &op;
  made.content.operator_name = op.name;
  made.content.device = device;
  made.content.match.axes.resize(op.axes.size());
  return made;
}

inline void add_row(table_in_making& to, const live_problem& from) {
  std::vector<row_entry> times;
  double uncertainty = 0;
  for (const live_variant& compared : from.variants) {
    if (compared.compared.count == 0) continue;
    times.push_back({compared.id, compared.compared.median_us});
    uncertainty = std::max(uncertainty, compared.compared.uncertainty);
    to.least_samples = to.rows == 0 && times.size() == 1
                           ? compared.compared.count
                           : std::min(to.least_samples, compared.compared.count);
    to.max_samples = std::max(to.max_samples, compared.compared.count);
  }
  if (times.size() < 2) return;  // it compares nothing
  // That of the rows they join: tables are merged where their rules are the same.
  if (!to.has_match && from.match) {
    to.content.match = *from.match;
    to.has_match = true;
  }
  const std::size_t most = times.size();
  put_row(to.content, *to.op, from.problem, from.row_type, std::move(times), uncertainty, most);
  row_group* const group = find_group(to.content, *to.op, from.row_type);
  for (std::size_t i = 0; group != nullptr && i < group->ids.size(); ++i) {
    for (const live_variant& compared : from.variants) {
      if (compared.id == group->ids[i] && compared.compared.count > 0) group->blobs[i] = compared.blobs;
    }
  }
  ++to.rows;
}

}  // namespace detail

SWITCHYARD_COLD std::vector<live_table> format_live_tables(const live_report& from, const std::string& date) {
  std::vector<detail::table_in_making> all;
  for (const live_problem& met : from.problems)
    detail::add_row(detail::table_of(all, *met.op, met.device), met);
  for (const live_denial& denied : from.denials) {
    detail::table_of(all, *denied.op, denied.device)
        .content.denials.push_back({denied.variant, denied.reason, denied.type});
  }
  std::vector<live_table> out;
  for (const detail::table_in_making& made : all) {
    if (made.rows == 0 && made.content.denials.empty()) continue;
    measurement how;
    how.date = date;
    how.tool = "switchyard " + std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
               std::to_string(SWITCHYARD_VERSION_MINOR) + "." + std::to_string(SWITCHYARD_VERSION_PATCH);
    how.rows = static_cast<std::int64_t>(made.rows);
    how.statistic = "median";
    how.samples = {static_cast<std::int64_t>(made.least_samples),
                   static_cast<std::int64_t>(made.max_samples)};
    how.cache = "warm";
    how.launches = "stream";
    how.note = "measured at real calls";
    out.push_back(
        {std::string{made.op->name} + "/" + detail::file_name_of(made.content.device.name) + ".json",
         format_table(*made.op, made.content, std::span{&how, made.rows > 0 ? 1U : 0U})});
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
