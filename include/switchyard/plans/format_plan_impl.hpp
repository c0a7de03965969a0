// SPDX-License-Identifier: MIT
// The bodies of format_plan.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/plans/format_plan.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD void add_geometry(const plan& made, explanation& why) {
  const auto extent = [](const dim3& d) {
    return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
  };
  for (std::size_t i = 0; i < made.launches.size(); ++i) {
    const planned_launch& launch = made.launches[i];
    if (launch.is_fill) continue;
    why.launches[i] += ", grid " +
                       (launch.per_call_grid != nullptr ? "of the call" : extent(launch.geometry.grid)) +
                       ", block " + extent(launch.geometry.block);
    if (launch.geometry.shared_bytes > 0)
      why.launches[i] += ", shared " + std::to_string(launch.geometry.shared_bytes);
  }
}

SWITCHYARD_COLD std::string format_line(const explanation& why, const plan_cost& cost) {
  std::string line = "switchyard: " + std::string{cost.select_ns < 0 ? "launch " : ""} + to_string(why);
  for (const std::string& line_of_launch : why.launches) line += "; " + line_of_launch;
  if (cost.select_ns >= 0) {
    line += "; selected in " + std::to_string(cost.select_ns) + " ns, loaded in " +
            text::number(static_cast<double>(cost.load_ns) / 1000) + " us";
  }
  return line;
}

SWITCHYARD_COLD std::string format_json(const explanation& why, const plan_cost& cost) {
  const auto member = [](std::string_view name, std::string_view value) {
    return text::quote_json(name) + ":" + text::quote_json(value) + ",";
  };
  std::string line = "{" + member("event", cost.select_ns < 0 ? "launch" : "choice") +
                     member("operator", why.operator_name) + member("problem", why.problem) +
                     member("device", why.device) + member("variant", why.variant) +
                     member("config", why.config) + member("target", why.target) +
                     member("reason", to_string(why.chosen.why)) + member("sentence", format_reason(why));
  if (!why.table.empty()) {
    line += member("table", why.table);
    line +=
        "\"group\":" + std::to_string(why.table_group) + ",\"row\":" + std::to_string(why.table_row) + ",";
  }
  line += "\"distance\":" + text::number(static_cast<double>(why.chosen.distance)) +
          ",\"predicted_us\":" + text::number(static_cast<double>(why.chosen.microseconds)) +
          ",\"growth\":" + text::number(static_cast<double>(why.chosen.growth)) +
          ",\"stale\":" + (why.chosen.stale ? "true" : "false") + ",\"launches\":[";
  for (std::size_t i = 0; i < why.launches.size(); ++i)
    line += (i > 0 ? "," : "") + text::quote_json(why.launches[i]);
  line += "]";
  if (cost.select_ns >= 0) {
    line += ",\"select_ns\":" + std::to_string(cost.select_ns) +
            ",\"load_us\":" + text::number(static_cast<double>(cost.load_ns) / 1000);
  }
  return line + "}";
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
