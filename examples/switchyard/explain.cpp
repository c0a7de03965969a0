// SPDX-License-Identifier: MIT
// switchyard explain: shows what would run for a problem on a device, every rule that applied, and every
// candidate.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "devices.hpp"
#include "installed.hpp"
#include "operators.hpp"
#include "tables/predictions.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct explain_arguments {
  std::string operator_name;
  std::vector<std::string> words;
  std::string device;
  std::vector<std::string> attributes;
  sy::choice_limits limits;
  bool all = false;
};

struct stated_problem {
  std::vector<std::int64_t> values;
  std::vector<std::string> assumed;  ///< "axis=value" of what the command line left out
};

/// The problem of a command line. Flags and enumerations left out have their first value; sizes must be
/// given.
[[nodiscard]] stated_problem read_problem(const known_operator& known,
                                          const std::vector<std::string>& words) {
  const sy::operator_description& op = *known.description;
  stated_problem out;
  out.values.resize(op.axes.size());
  std::vector<bool> given(op.axes.size());
  for (const std::string& word : words) {
    const axis_word each = require_axis_word(op, word);
    out.values.resize(op.axes.size());  // a word may add an axis
    given.resize(op.axes.size());
    if (given[each.axis]) {
      throw usage_error{"axis '" + std::string{op.axes[each.axis].name} +
                        "' is given twice, the second time in '" + word + "'; give one value"};
    }
    given[each.axis] = true;
    out.values[each.axis] = each.value;
  }
  const std::string missing = fill_defaults(known, out.values, given, &out.assumed);
  if (!missing.empty()) {
    throw usage_error{"explain " + std::string{op.name} + ": these must be given as axis=value: " + missing};
  }
  return out;
}

/// Refuses a condition on arguments, or an argument, that no file names: it decides nothing.
void require_named(const sy::operator_description& of_files, const sy::operator_description& op,
                   const stated_problem& problem) {
  if (problem.values.size() <= of_files.axes.size()) return;
  std::vector<std::string_view> names;
  for (const sy::axis_description& each : of_files.axes.subspan(of_files.own_axes()))
    names.push_back(each.name);
  throw usage_error{"no manifest or table of '" + std::string{op.name} + "' that is installed names '" +
                    std::string{op.axes.back().name} + "' (they name " +
                    (names.empty() ? std::string{"none"} : sy::text::join(names)) + ")"};
}

/// A choice and what it was made from.
struct explained_call {
  std::shared_ptr<const sy::selector> rules;
  stated_problem problem;
  known_device device;
  bool is_installed = true;  ///< kernels of the device are; else the variants are those that tables name
  std::vector<std::atomic<bool>> unusable;  ///< candidates that cannot be loaded
  sy::explanation why;

  [[nodiscard]] sy::problem_view values() const noexcept { return problem.values; }
};

/// One rule of selection and what came of it.
struct applied_rule {
  std::string name;
  std::string outcome;
};

/// "row 3", with its place where that is not the group's first one: tables of one device form one group.
[[nodiscard]] std::string name_row(const sy::selector& rules, const sy::indexed_group& group,
                                   std::uint32_t row) {
  const auto& here = group.origins[row];
  const auto& first = group.origins.front();
  const std::string out = "row " + std::to_string(here.row);
  if (here.table == first.table && here.group == first.group) return out;
  return out + " of group " + std::to_string(here.group) + " of " + rules.tables[here.table]->path;
}

/// Whether one of a row's variants may serve.
[[nodiscard]] bool has_serving(const explained_call& of, const sy::indexed_group& group, std::uint32_t row) {
  const auto times = group.row_times(row);
  return std::any_of(times.begin(), times.end(), [&](const sy::candidate_time& time) {
    return of.rules->first_admissible(group.named[time.variant].candidates, of.values(), of.unusable) !=
           sy::no_index;
  });
}

/// Where a row names a variant first whose time is not the least of those that may serve.
[[nodiscard]] std::string describe_tie(const explained_call& of, const sy::indexed_group& group,
                                       std::uint32_t row) {
  std::uint32_t first = sy::no_index;
  float of_first = 0;
  for (const sy::candidate_time& time : group.row_times(row)) {
    const std::uint32_t serving =
        of.rules->first_admissible(group.named[time.variant].candidates, of.values(), of.unusable);
    if (serving == sy::no_index) continue;
    if (first == sy::no_index) {
      first = serving;
      of_first = time.microseconds;
    } else if (group.timed && time.microseconds < of_first) {
      return ", which names '" + of.rules->candidates[first].variant->id +
             "' first among times that cannot be told apart";
    }
  }
  return {};
}

/// What a group of rows says to a problem, in words.
[[nodiscard]] std::string ask_group(const explained_call& of, const sy::indexed_group& group) {
  const sy::selector& rules = *of.rules;
  const sy::problem_view problem = of.values();
  if (const std::uint32_t other = rules.left_out(group, problem, of.unusable); other != sy::no_index) {
    return "does not compare '" + rules.candidates[other].variant->id + "', which serves this problem";
  }
  std::string out;
  if (const std::uint32_t row = group.find_row(problem); row != sy::no_index) {
    const std::string name = name_row(rules, group, row) + " for exactly these sizes";
    if (has_serving(of, group, row)) return "has " + name + describe_tie(of, group, row);
    out = "has no variant that may serve in " + name + "; ";
  }
  constexpr float exact_step = sy::metric_dimension::exact_spacing / 2;
  std::array<float, sy::max_dimensions> point{};
  sy::joint_program::values computed{group.program, problem};
  sy::neighbour_list near;
  const bool has_place = group.place(problem, computed, point);
  if (has_place) group.index.nearest({point.data(), group.dimensions.size()}, group.neighbours, near);
  while (near.count > 0 && near.entries[near.count - 1].squared_distance >= exact_step * exact_step)
    --near.count;
  if (near.count == 0) return out + "has no row with the same values on its exact axes";
  std::uint32_t first = 0;
  while (first < near.count && !has_serving(of, group, near.entries[first].row)) ++first;
  const std::string count = std::to_string(near.count) + (near.count == 1 ? " neighbour" : " neighbours");
  if (first == near.count) return out + count + ", none with a variant that may serve";
  const std::uint32_t row = near.entries[first].row;
  const double distance = std::sqrt(static_cast<double>(near.entries[first].squared_distance));
  std::string at;
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    at += (i > 0 ? " " : "") + std::string{rules.op->axes[group.axes[i]].name} + "=" +
          std::to_string(group.at[row * group.axes.size() + i]);
  }
  return out + count + ", the nearest " + name_row(rules, group, row) + " (" + at + ") at distance " +
         sy::text::number(distance) + (distance <= group.envelope ? ", within" : ", outside") +
         " the envelope of " + sy::text::number(group.envelope);
}

/// ", 34 of its 35 variants are not installed for this device"; empty: all are.
[[nodiscard]] std::string describe_uninstalled(const sy::indexed_group& group) {
  const auto missing =
      std::count_if(group.named.begin(), group.named.end(),
                    [](const sy::named_candidates& each) { return each.candidates.empty(); });
  if (missing == 0) return {};
  return ", " + std::to_string(missing) + " of whose " + std::to_string(group.named.size()) +
         " variants are not installed for this device,";
}

/// What the rows of tables say, group by group.
void trace_rows(const explained_call& of, std::vector<applied_rule>& out) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  bool decided = false;
  std::size_t other_types = 0;
  for (std::size_t i = 0; i < rules.groups.size(); ++i) {
    const sy::indexed_group& group = rules.groups[i];
    if (!sy::matches(group.type, of.values())) {
      ++other_types;
      continue;
    }
    const auto& origin = group.origins.front();
    std::string outcome = decided ? "not asked" : ask_group(of, group);
    // An extrapolation decides only when no later group does better, so all are asked.
    if (!decided && i == chosen.group) {
      outcome += ": decides";
      decided = static_cast<double>(chosen.distance) <= group.envelope;
    }
    out.push_back({"rows", rules.tables[origin.table]->path + " group " + std::to_string(origin.group) +
                               " (" + std::string{to_string(group.rank)} + ", " +
                               std::to_string(group.row_count()) + " rows)" + describe_uninstalled(group) +
                               " " + outcome});
    if (i != chosen.group) continue;
    for (const sy::lost_row& each : of.why.lost) {
      out.push_back({"not used", each.table + " group " + std::to_string(each.group) + " has row " +
                                     std::to_string(each.row) + " for the same sizes: " + each.why});
    }
  }
  for (const sy::silent_group& group : rules.silent) {
    if (!sy::matches(group.type, of.values())) {
      ++other_types;
      continue;
    }
    const sy::table& table = *rules.tables[group.first.table];
    out.push_back({"rows", table.path + " group " + std::to_string(group.first.group) + " (" +
                               std::string{to_string(sy::rank_of(rules.device, table.device))} +
                               ") names no variant that is installed for this device"});
  }
  if (other_types > 0) {
    out.push_back({"rows", std::to_string(other_types) + (other_types == 1 ? " group is of another type"
                                                                           : " groups are of other types")});
  }
  if (rules.groups.empty() && rules.silent.empty())
    out.push_back({"rows", "no table has rows that speak about this device"});
}

[[nodiscard]] std::string describe_candidates(const explained_call& of) {
  const auto count = [&](const auto& is_counted) {
    return std::count_if(of.why.candidates.begin(), of.why.candidates.end(), is_counted);
  };
  const auto serving = count([](const sy::candidate_report& each) { return each.admissible; });
  const auto passed_over = count([](const sy::candidate_report& each) { return each.passed_over; });
  const std::string all = std::to_string(of.why.candidates.size());
  if (!of.is_installed) {
    return "none is installed for this device; its tables name " + all + " variants, " +
           std::to_string(serving) + " of them for this type";
  }
  return all + " variants can run on the device, " + std::to_string(serving) +
         " of them may serve this problem" +
         (passed_over > 0 ? ", " + std::to_string(passed_over) + " that could are passed over" : "");
}

[[nodiscard]] std::vector<applied_rule> trace(const explained_call& of) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  std::vector<applied_rule> out;
  out.push_back({"candidates", describe_candidates(of)});
  const std::string forced = of.why.operator_name + ":" + rules.force_text;
  out.push_back({"force", !rules.is_forced                 ? std::string{"not set"}
                          : chosen.variant == sy::no_index ? forced + " may not serve"
                                                           : forced + " decides"});
  if (rules.is_forced) return out;
  std::size_t applying = 0;
  for (const sy::candidate_pin& each : rules.pins) applying += each.applies(of.values()) ? 1U : 0U;
  out.push_back({"pins", std::to_string(applying) + " of " + std::to_string(rules.pins.size()) + " apply" +
                             (chosen.why == sy::reason::pinned ? ": " + of.why.table + " decides"
                              : applying > 0                   ? ", to variants that may not serve"
                                                               : "")});
  if (chosen.why == sy::reason::pinned) return out;
  trace_rows(of, out);
  if (chosen.why == sy::reason::heuristic) {
    out.push_back({"order", (rules.candidates[chosen.variant].variant->has_time()
                                 ? "the least cost of the variants that may serve: "
                                 : "the first variant of the manifests that may serve: ") +
                                of.why.variant + " decides"});
  }
  return out;
}

struct ranked_candidate {
  sy::candidate_report report;
  bool is_chosen = false;
  bool is_compared =
      false;  ///< with the chosen one, by the rows that decide; else rows elsewhere tell its time
  double microseconds = 0;  ///< 0: no table says anything
  sy::reason basis = sy::reason::none;
};

/// The candidates, the chosen one first, then by time: those that were compared with it, then the others.
[[nodiscard]] std::vector<ranked_candidate> rank_candidates(const explained_call& of) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  std::vector<ranked_candidate> out;
  for (std::uint32_t i = 0; i < of.why.candidates.size(); ++i)
    out.push_back({of.why.candidates[i], i == chosen.variant});
  if (chosen.group != sy::no_index && rules.groups[chosen.group].timed) {
    (void)sy::group_query{rules, rules.groups[chosen.group], of.values(), of.unusable}.choose(
        [&](std::uint32_t candidate, float microseconds) {
          ranked_candidate& each = out[candidate];
          if (each.is_compared || !each.report.admissible) return;
          each.is_compared = true;
          each.microseconds = static_cast<double>(microseconds);
          each.basis = chosen.why;
        });
  }
  const sy::selector of_tables = tables_only(rules);
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    if (out[i].is_compared || !out[i].report.admissible) continue;
    const prediction alone = predict(of_tables, i, of.values());
    out[i].microseconds = alone.microseconds;
    out[i].basis = alone.basis;
  }
  const auto rank = [](const ranked_candidate& each) {
    return each.is_chosen            ? 0
           : each.is_compared        ? 1
           : each.microseconds > 0   ? 2
           : each.report.admissible  ? 3
           : each.report.passed_over ? 4
                                     : 5;
  };
  std::stable_sort(out.begin(), out.end(), [&rank](const ranked_candidate& a, const ranked_candidate& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return rank(a) <= 2 && a.microseconds < b.microseconds;
  });
  return out;
}

[[nodiscard]] std::string evaluate_extent(const std::array<sy::expression, 3>& extents,
                                          const sy::evaluation& values) {
  std::string out;
  for (const sy::expression& each : extents) {
    if (each.reads_fields()) return "of the call";
    const sy::integer_result result = each.evaluate(values);
    out += (out.empty() ? "" : "x") + (result.why == sy::fault::none ? std::to_string(result.value)
                                                                     : std::string{to_string(result.why)});
  }
  return out;
}

[[nodiscard]] ordered_json describe_launches(const sy::selector& rules, sy::problem_view problem,
                                             const sy::choice& chosen) {
  ordered_json out = ordered_json::array();
  if (chosen.variant == sy::no_index) return out;
  const sy::variant& variant = *rules.candidates[chosen.variant].variant;
  const sy::evaluation values{problem, rules.device.attributes, {}, nullptr};
  for (const sy::launch& each : variant.launches) {
    if (each.is_fill) {
      out.push_back({{"fill", variant.workspace[each.fill_workspace].name}, {"byte", each.fill_byte}});
      continue;
    }
    out.push_back({{"kernel", each.kernel},
                   {"blob", each.blob},
                   {"grid", evaluate_extent(each.grid, values)},
                   {"block", evaluate_extent(each.block, values)},
                   {"shared_bytes", each.shared_bytes.evaluate(values).value}});
  }
  return out;
}

[[nodiscard]] std::int64_t workspace_bytes(const sy::selector& rules, sy::problem_view problem,
                                           const sy::choice& chosen) {
  constexpr auto step = static_cast<std::int64_t>(sy::workspace_alignment);
  std::int64_t total = 0;
  if (chosen.variant == sy::no_index) return total;
  for (const sy::named_expression& each : rules.candidates[chosen.variant].variant->workspace) {
    const std::int64_t bytes = each.value.evaluate({problem, rules.device.attributes, {}, nullptr}).value;
    total += (bytes + step - 1) / step * step;
  }
  return total;
}

/// What is said where the variants are those that tables name.
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

void print_text(const explained_call& of, bool all) {
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
  for (const applied_rule& each : trace(of)) {
    std::printf("  %-10s  %s\n", each.name.c_str(), sy::text::printable(each.outcome).c_str());
  }
  const ordered_json launches = describe_launches(*of.rules, of.values(), why.chosen);
  if (!launches.empty()) {
    std::printf("\nlaunches, with %lld bytes of workspace\n",
                static_cast<long long>(workspace_bytes(*of.rules, of.values(), why.chosen)));
  }
  for (const auto& each : launches) {
    if (each.contains("fill")) {
      std::printf("  fill of %s\n", each["fill"].get<std::string>().c_str());
      continue;
    }
    std::printf("  %s of %s, grid %s, block %s, shared %lld\n",
                sy::text::printable(each["kernel"].get<std::string>()).c_str(),
                sy::text::printable(each["blob"].get<std::string>()).c_str(),
                each["grid"].get<std::string>().c_str(), each["block"].get<std::string>().c_str(),
                static_cast<long long>(each["shared_bytes"].get<std::int64_t>()));
  }
  const std::vector<ranked_candidate> ranked = rank_candidates(of);
  const bool has_brackets = std::any_of(ranked.begin(), ranked.end(), [](const ranked_candidate& each) {
    return each.microseconds > 0 && !each.is_compared;
  });
  std::printf("\ncandidates, with the time that tables give or predict%s\n",
              has_brackets ? "; in parentheses: by rows that did not decide" : "");
  std::size_t other_types = 0;
  for (const ranked_candidate& each : ranked) {
    const sy::candidate_report& report = each.report;
    if (!report.admissible && report.obstacle.starts_with("serves ") && !all) {
      ++other_types;
      continue;
    }
    std::printf("  %12s  %-26s %s%s%s\n", format_time(each).c_str(), report.variant.c_str(),
                (report.target + (report.config.empty() ? "" : "; " + report.config)).c_str(),
                each.is_chosen
                    ? (of.is_installed ? "  <- chosen" : "  <- chosen by the tables, not installed")
                : report.admissible  ? ""
                : report.passed_over ? "  passed over: "
                                     : "  not now: ",
                sy::text::printable(report.obstacle).c_str());
  }
  if (other_types > 0) std::printf("  and %zu that serve other types (--all shows them)\n", other_types);
}

void print_json(const explained_call& of) {
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
      for (const sy::lost_row& each : why.lost) {
        out["choice"]["not_used"].push_back(
            {{"table", each.table}, {"group", each.group}, {"row", each.row}, {"why", each.why}});
      }
    }
  }
  out["rules"] = ordered_json::array();
  for (const applied_rule& each : trace(of)) {
    out["rules"].push_back({{"rule", each.name}, {"outcome", each.outcome}});
  }
  if (of.is_installed) out["workspace_bytes"] = workspace_bytes(*of.rules, of.values(), chosen);
  out["launches"] = describe_launches(*of.rules, of.values(), chosen);
  out["candidates"] = ordered_json::array();
  for (const ranked_candidate& each : rank_candidates(of)) {
    ordered_json candidate{{"variant", each.report.variant},
                           {"target", each.report.target},
                           {"config", each.report.config},
                           {"admissible", each.report.admissible}};
    if (!each.report.admissible) {
      candidate["obstacle"] = each.report.obstacle;
      candidate["passed_over"] = each.report.passed_over;
    }
    if (each.microseconds > 0) {
      candidate["microseconds"] = each.microseconds;
      candidate["basis"] = to_string(each.basis);
      candidate["compared"] = each.is_compared;
    }
    out["candidates"].push_back(std::move(candidate));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

/// Chooses as a dispatcher would, that finds the same files.
void choose(explained_call& of) {
  const sy::selector& rules = *of.rules;
  std::vector<std::string> missing(rules.candidates.size());
  if (of.is_installed) missing = find_missing_blobs(rules, of.values());
  of.unusable = std::vector<std::atomic<bool>>(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) of.unusable[i] = !missing[i].empty();
  sy::choice chosen = sy::select_fitting(rules, of.values(), of.unusable);
  // Without manifests there is neither a cost nor an order.
  if (!of.is_installed && chosen.why == sy::reason::heuristic) chosen = {};
  of.why = sy::explain(rules, of.values(), chosen, of.unusable);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i].empty()) continue;
    of.why.candidates[i].obstacle = missing[i];
    of.why.candidates[i].passed_over = true;
  }
}

void run(const explain_arguments& arguments, session& session) {
  sy::catalog_options options = session.options();
  options.limits = arguments.limits;
  sy::catalog catalog{std::move(options)};
  const known_operator& known = require_operator(arguments.operator_name, catalog.roots());
  explained_call call;
  call.device = require_device(catalog, arguments.device, arguments.attributes);
  call.rules = catalog.rules(*known.description, call.device.properties);  // files add axes
  call.problem = read_problem(known, arguments.words);
  require_named(*call.rules->op, *known.description, call.problem);
  if (call.rules->candidates.empty()) {
    if (auto of_tables =
            rules_of_tables(catalog, *known.description, call.device.properties, call.rules->force_text)) {
      call.rules = std::move(of_tables);
      call.is_installed = false;
    }
  }
  choose(call);
  if (session.json) {
    print_json(call);
  } else {
    print_text(call, arguments.all);
  }
  if (call.why.variant.empty()) session.status = status_finding;
}

}  // namespace

void add_explain(CLI::App& app, session& session) {
  auto* const command = app.add_subcommand("explain", "Show what would run for a problem, and why");
  const auto arguments = std::make_shared<explain_arguments>();
  command->add_option("operator", arguments->operator_name, "Name of the operator")->required();
  command->add_option(
      "problem", arguments->words,
      "The axes of the call, axis=value: sizes and dtype, and flags that are not at their default");
  command->add_option(
      "--device", arguments->device,
      "A device that a table names, a part of its name, or an invented one such as cuda:sm_90; "
      "default: this machine's");
  command
      ->add_option("--attribute", arguments->attributes,
                   "name=value of the device, as conditions read it, such as avx2=1; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--workspace-limit", arguments->limits.workspace_bytes,
                   "Most bytes of workspace of the call; variants that need more may not serve")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--max-error", arguments->limits.max_error,
                   "How far results may be off, as a share of what `tune` tolerates, such as 0.5")
      ->check(CLI::PositiveNumber);
  command->add_option("--reproducible", arguments->limits.reproducible,
                      "The class that a manifest states as `reproducible`; others may not serve");
  command->add_flag("--all", arguments->all, "Show candidates of other types too");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
