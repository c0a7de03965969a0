// SPDX-License-Identifier: MIT
// Which rules of selection applied to a call, in words.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/expression/joint_program.hpp>

#include "explain/explained_call.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// "row 3", with its file unless that is the group's first one: tables of one device form one group.
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

/// Says so if a row prefers a variant that is not the fastest of those that may serve.
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

/// What a group of rows decides for a problem, in words.
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

/// ", 34 of its 35 variants are not installed for this device"; empty if all are installed.
[[nodiscard]] std::string describe_uninstalled(const sy::indexed_group& group) {
  const auto missing =
      std::count_if(group.named.begin(), group.named.end(),
                    [](const sy::named_candidates& list) { return list.candidates.empty(); });
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
    // An extrapolation decides only if no later group does better, so all groups are asked.
    if (!decided && i == chosen.group) {
      outcome += ": decides";
      decided = static_cast<double>(chosen.distance) <= group.envelope;
    }
    out.push_back({"rows", rules.tables[origin.table]->path + " group " + std::to_string(origin.group) +
                               " (" + std::string{to_string(group.rank)} + ", " +
                               std::to_string(group.row_count()) + " rows)" + describe_uninstalled(group) +
                               " " + outcome});
    if (i != chosen.group) continue;
    for (const sy::lost_row& row : of.why.lost) {
      out.push_back({"not used", row.table + " group " + std::to_string(row.group) + " has row " +
                                     std::to_string(row.row) + " for the same sizes: " + row.why});
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
  const auto serving = count([](const sy::candidate_report& candidate) { return candidate.admissible; });
  const auto passed_over = count([](const sy::candidate_report& candidate) { return candidate.passed_over; });
  const std::string all = std::to_string(of.why.candidates.size());
  if (!of.is_installed) {
    return "none is installed for this device; its tables name " + all + " variants, " +
           std::to_string(serving) + " of them for this type";
  }
  return all + " variants can run on the device, " + std::to_string(serving) +
         " of them may serve this problem" +
         (passed_over > 0 ? ", " + std::to_string(passed_over) + " that could are passed over" : "");
}

}  // namespace

std::vector<applied_rule> trace(const explained_call& of) {
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
  for (const sy::candidate_pin& pin : rules.pins) applying += pin.applies(of.values()) ? 1U : 0U;
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

}  // namespace tool
