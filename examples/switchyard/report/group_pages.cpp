// SPDX-License-Identifier: MIT
#include "report/group_pages.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include <switchyard/problem/problem.hpp>

#include "operators.hpp"
#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/costs.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

using plot::escaped;
using plot::format;

namespace {

[[nodiscard]] ranking rank_variants(const sy::row_group& rows) {
  ranking out;
  out.wins.resize(rows.ids.size());
  out.place.resize(rows.ids.size());
  for (std::size_t row = 0; row < rows.row_count(); ++row) ++out.wins[rows.row_times(row).front().variant];
  out.order.resize(rows.ids.size());
  std::iota(out.order.begin(), out.order.end(), 0U);
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&out](std::uint32_t a, std::uint32_t b) { return out.wins[a] > out.wins[b]; });
  for (std::size_t i = 0; i < out.order.size(); ++i) out.place[out.order[i]] = i;
  return out;
}

}  // namespace

std::string short_number(std::int64_t value) {
  if (value >= 1 << 20 && value % (1 << 20) == 0) return std::to_string(value >> 20) + "Mi";
  if (value >= 1 << 12 && value % 1024 == 0) return std::to_string(value >> 10) + "Ki";
  return std::to_string(value);
}

group_pages::group_pages(const table_file& table, std::size_t group,
                         const std::shared_ptr<const sy::manifest>& variants)
    : table_{table},
      op_{table.op()},
      rows_{table.content.groups[group]},
      rank_{rank_variants(rows_)},
      rules_{rules_of(table, variants)},
      predicted_{leave_one_out(table, group, variants)} {}

std::string group_pages::write() const {
  std::string out = "<section class=\"group\"><h3>" + escaped(format_type(op_, rows_.type)) + "</h3>\n";
  out += format(
      "<p>%zu rows, %zu variants. Each row predicted from the others: chosen over best %.4f in "
      "the mean, %.3f at the 99th percentile, ",
      rows_.row_count(), rows_.ids.size(), predicted_.mean(), predicted_.quantile(0.99));
  out += predicted_.worst > 1
             ? format("%.3f at worst (", predicted_.worst) + escaped(predicted_.worst_at) + ")."
             : std::string{"1 at worst."};
  if (predicted_.outside > 0) {
    out += format(" %zu rows lie outside the envelope of all others.", predicted_.outside);
  }
  out += "</p>\n" + legend() + heat_maps();
  out += "<div class=\"pair\">" + roofline() + regret_plot() + variant_plot() + "</div>\n";
  return out + shape_table() + "</section>\n";
}

std::string group_pages::describe(std::size_t row) const {
  const auto times = rows_.row_times(row);
  std::string out = format_row(op_, rows_, row) + ": " + rows_.ids[times[0].variant] +
                    format(" %.4g us", microseconds_of(times[0]));
  if (times.size() > 1) {
    out += ", then " + rows_.ids[times[1].variant] +
           format(" +%.1f %%", 100 * (microseconds_of(times[1]) / microseconds_of(times[0]) - 1));
  }
  return out;
}

std::string group_pages::shape_table() const {
  constexpr std::size_t max_rows = 1000;
  const double bandwidth = static_cast<double>(table_.content.device.attribute("memory_bandwidth"));
  std::string out = "<details><summary>Shapes</summary><table><thead><tr>";
  for (const std::uint32_t axis : rows_.axes) out += "<th>" + escaped(op_.axes[axis].name) + "</th>";
  out +=
      "<th>&micro;s</th><th class=\"id\">variant</th><th>next</th><th>TB/s</th><th>of the memory's</th>"
      "<th>TFLOP/s</th></tr></thead><tbody>\n";
  for (std::size_t row = 0; row < rows_.row_count() && row < max_rows; ++row) {
    const auto times = rows_.row_times(row);
    const cost least = cost_of(op_, problem_of_row(op_, rows_, row));
    out += "<tr>";
    for (const std::int64_t value : rows_.coordinates(row)) out += "<td>" + std::to_string(value) + "</td>";
    out += format("<td>%.4g</td><td class=\"id\">", microseconds_of(times[0])) +
           escaped(rows_.ids[times[0].variant]) + "</td><td>";
    if (times.size() > 1)
      out += format("+%.1f %%", 100 * (microseconds_of(times[1]) / microseconds_of(times[0]) - 1));
    const double rate = least.bytes / microseconds_of(times[0]) * 1e6;
    out += "</td><td>" + (least.known() ? format("%.3f", rate / 1e12) : std::string{}) + "</td><td>" +
           (least.known() && bandwidth > 0 ? format("%.0f %%", 100 * rate / bandwidth) : std::string{}) +
           "</td><td>" +
           (least.known() ? format("%.4g", least.flops / microseconds_of(times[0]) / 1e6) : std::string{}) +
           "</td></tr>\n";
  }
  out += "</tbody></table>";
  if (rows_.row_count() > max_rows) out += format("<p>and %zu more</p>", rows_.row_count() - max_rows);
  return out + "</details>\n";
}

}  // namespace tool
