// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>

#include "explain/explained_call.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

/// The note that the variants are those that tables name.
constexpr const char* uninstalled_note =
    "no kernels for this device are installed here, so nothing can run. The variants are those that tables "
    "name; their conditions, grids and configurations are in manifests, which are made when kernels are "
    "built";

/// Why no variant serves the problem.
[[nodiscard]] std::string describe_failure(const explained_call& of) {
  const std::string call = of.why.operator_name + " {" + of.why.problem + "} on " + of.why.device + ": ";
  if (!of.is_installed) {
    return call +
           "no kernels for this device are installed here, and no rows of its tables decide. Install "
           "kernels that are built for it";
  }
  std::string missing;
  for (std::size_t i = 0; i < of.unusable.size(); ++i) {
    if (of.unusable[i].load(std::memory_order_relaxed))
      missing +=
          (missing.empty() ? "" : "; ") + of.why.candidates[i].variant + ": " + of.why.candidates[i].obstacle;
  }
  if (missing.empty()) return sy::explain_failure(*of.rules, of.values());
  return call + "no variant that serves it can be loaded (" + missing +
         "). Install blobs and manifest of one build";
}

[[nodiscard]] std::string format_time(const ranked_candidate& of) {
  if (of.microseconds <= 0) return "-";
  const std::string time = sy::text::number(of.microseconds) + " us";
  return of.is_compared ? time : "(" + time + ")";
}

}  // namespace

void print_explanation(const explained_call& of, bool all) {
  const sy::explanation& why = of.why;
  const std::string line = why.variant.empty() ? describe_failure(of)
                           : of.is_installed   ? sy::to_string(why)
                                               : sy::to_string(why) + "; not installed here";
  std::printf("%s\n", sy::text::printable(line).c_str());
  if (!of.is_installed) std::printf("\nnote: %s\n", uninstalled_note);
  std::printf("\ndevice from %s\n", sy::text::printable(of.device.source).c_str());
  if (!of.problem.assumed.empty())
    std::printf("assumed: %s\n", sy::text::join(of.problem.assumed, 40).c_str());
  std::printf("\nrules\n");
  for (const applied_rule& rule : trace(of)) {
    std::printf("  %-10s  %s\n", rule.name.c_str(), sy::text::printable(rule.outcome).c_str());
  }
  const ordered_json launches = describe_launches(of);
  if (!launches.empty()) {
    std::printf("\nlaunches, with %lld bytes of workspace\n", static_cast<long long>(workspace_bytes(of)));
  }
  for (const auto& launch : launches) {
    if (launch.contains("fill")) {
      std::printf("  fill of %s\n", launch["fill"].get<std::string>().c_str());
      continue;
    }
    std::printf("  %s of %s, grid %s, block %s, shared %lld\n",
                sy::text::printable(launch["kernel"].get<std::string>()).c_str(),
                sy::text::printable(launch["blob"].get<std::string>()).c_str(),
                launch["grid"].get<std::string>().c_str(), launch["block"].get<std::string>().c_str(),
                static_cast<long long>(launch["shared_bytes"].get<std::int64_t>()));
  }
  const std::vector<ranked_candidate> ranked = rank_candidates(of);
  const bool has_brackets = std::any_of(ranked.begin(), ranked.end(), [](const ranked_candidate& candidate) {
    return candidate.microseconds > 0 && !candidate.is_compared;
  });
  std::printf("\ncandidates, with the time that tables give or predict%s\n",
              has_brackets ? "; in parentheses: by rows that did not decide" : "");
  std::size_t other_types = 0;
  for (const ranked_candidate& candidate : ranked) {
    const sy::candidate_report& report = candidate.report;
    if (!report.admissible && report.obstacle.starts_with("serves ") && !all) {
      ++other_types;
      continue;
    }
    std::printf("  %12s  %-26s %s%s%s\n", format_time(candidate).c_str(), report.variant.c_str(),
                (report.target + (report.config.empty() ? "" : "; " + report.config)).c_str(),
                candidate.is_chosen
                    ? (of.is_installed ? "  <- chosen" : "  <- chosen by the tables, not installed")
                : report.admissible  ? ""
                : report.passed_over ? "  passed over: "
                                     : "  not now: ",
                sy::text::printable(report.obstacle).c_str());
  }
  if (other_types > 0) std::printf("  and %zu that serve other types (--all shows them)\n", other_types);
}

void print_explanation_as_json(const explained_call& of) {
  const sy::explanation& why = of.why;
  const sy::operator_description& op = *of.rules->op;
  ordered_json out{{"operator", why.operator_name}, {"problem", ordered_json::object()}};
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const sy::axis_description& axis = op.axes[i];
    auto& value = out["problem"][std::string{axis.name}];
    if (axis.value_names.empty()) {
      value = of.problem.values[i];
    } else {
      value = sy::format_value(axis, of.problem.values[i]);
    }
  }
  out["assumed"] = of.problem.assumed;
  out["installed"] = of.is_installed;
  if (!of.is_installed) out["note"] = uninstalled_note;
  const sy::device_properties& device = of.device.properties;
  out["device"] = {{"name", device.name},
                   {"backend", device.backend},
                   {"arch", device.arch},
                   {"source", of.device.source}};
  if (const std::int64_t count = device.attribute("multiprocessors"); count > 0)
    out["device"]["multiprocessors"] = count;
  const sy::choice& chosen = why.chosen;
  if (why.variant.empty()) {
    out["choice"] = nullptr;
    out["failure"] = describe_failure(of);
  } else {
    out["choice"] = {{"variant", why.variant},
                     {"config", why.config},
                     {"target", why.target},
                     {"manifest", why.manifest},
                     {"reason", to_string(chosen.why)},
                     {"sentence", sy::format_reason(why)},
                     {"stale", chosen.stale},
                     {"distance", chosen.distance},
                     {"microseconds", chosen.microseconds}};
    if (!of.is_installed) out["choice"]["manifest"] = nullptr;
    if (!why.table.empty()) {
      out["choice"]["table"] = why.table;
      out["choice"]["rank"] = to_string(chosen.rank);
    }
    if (chosen.row != sy::no_index) {
      out["choice"]["group"] = why.table_group;
      out["choice"]["row"] = why.table_row;
      out["choice"]["at"] = why.row_at;
      for (const sy::lost_row& row : why.lost) {
        out["choice"]["not_used"].push_back(
            {{"table", row.table}, {"group", row.group}, {"row", row.row}, {"why", row.why}});
      }
    }
  }
  out["rules"] = ordered_json::array();
  for (const applied_rule& rule : trace(of)) {
    out["rules"].push_back({{"rule", rule.name}, {"outcome", rule.outcome}});
  }
  if (of.is_installed) out["workspace_bytes"] = workspace_bytes(of);
  out["launches"] = describe_launches(of);
  out["candidates"] = ordered_json::array();
  for (const ranked_candidate& ranked : rank_candidates(of)) {
    ordered_json candidate{{"variant", ranked.report.variant},
                           {"target", ranked.report.target},
                           {"config", ranked.report.config},
                           {"admissible", ranked.report.admissible}};
    if (!ranked.report.admissible) {
      candidate["obstacle"] = ranked.report.obstacle;
      candidate["passed_over"] = ranked.report.passed_over;
    }
    if (ranked.microseconds > 0) {
      candidate["microseconds"] = ranked.microseconds;
      candidate["basis"] = to_string(ranked.basis);
      candidate["compared"] = ranked.is_compared;
    }
    out["candidates"].push_back(std::move(candidate));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace tool
