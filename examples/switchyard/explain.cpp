// switchyard explain: shows what would run for a problem on a device, every rule that applied, and every
// candidate.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "devices.hpp"
#include "operators.hpp"
#include "predictions.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct explain_arguments {
  std::string operator_name;
  std::vector<std::string> words;
  std::string device;
  std::vector<std::string> attributes;
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
  std::string missing;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    if (given[i]) continue;
    const sy::axis_description& axis = op.axes[i];
    const auto rule = std::find_if(known.defaults.begin(), known.defaults.end(),
                                   [&axis](const axis_default& each) { return each.axis == axis.name; });
    if (rule != known.defaults.end() && rule->value.starts_with('=')) {
      const std::uint32_t other = require_axis(op, rule->value.substr(1));
      if (!given[other]) continue;  // reported by its own name
      out.values[i] = out.values[other];
    } else if (rule != known.defaults.end()) {
      out.values[i] = require_value(axis, rule->value);
    } else if (axis.value_names.empty() || axis.name == "dtype") {
      missing += (missing.empty() ? "" : ", ") + std::string{axis.name};
      continue;
    }
    out.assumed.push_back(std::string{axis.name} + "=" + sy::format_value(axis, out.values[i]));
  }
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

/// One rule of selection and what came of it.
struct applied_rule {
  std::string name;
  std::string outcome;
};

/// "row 3", with its place where that is not the group's first one: tables of one device form one group.
[[nodiscard]] std::string name_row(const sy::selector& rules, const sy::bound_group& group,
                                   std::uint32_t row) {
  const auto& here = group.origins[row];
  const auto& first = group.origins.front();
  const std::string out = "row " + std::to_string(here.row);
  if (here.table == first.table && here.group == first.group) return out;
  return out + " of group " + std::to_string(here.group) + " of " + rules.tables[here.table]->path;
}

/// What a group of rows says to a problem, in words.
[[nodiscard]] std::string ask_group(const sy::selector& rules, const sy::bound_group& group,
                                    sy::problem_view problem) {
  if (const std::uint32_t other = rules.left_out(group, problem, {}); other != sy::no_index) {
    return "does not compare '" + rules.candidates[other].variant->id + "', which serves this problem";
  }
  if (const std::uint32_t row = group.find_row(problem); row != sy::no_index) {
    return "has " + name_row(rules, group, row) + " for exactly these sizes";
  }
  std::array<float, sy::max_dimensions> point{};
  sy::joint_program::values computed{group.program, problem};
  if (!group.place(problem, computed, point)) return "has no row with the same value on its exact axes";
  sy::neighbour_list near;
  group.index.nearest({point.data(), group.axes.size()}, group.neighbours, near);
  if (near.count == 0) return "has no rows";
  const double distance = std::sqrt(static_cast<double>(near.entries[0].squared_distance));
  std::string at;
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    at += (i > 0 ? " " : "") + std::string{rules.op->axes[group.axes[i]].name} + "=" +
          std::to_string(group.at[near.entries[0].row * group.axes.size() + i]);
  }
  return std::to_string(near.count) + " neighbours, the nearest " +
         name_row(rules, group, near.entries[0].row) + " (" + at + ") at distance " +
         sy::text::number(distance) + (distance <= group.envelope ? ", within" : ", outside") +
         " the envelope of " + sy::text::number(group.envelope);
}

[[nodiscard]] std::vector<applied_rule> trace(const sy::selector& rules, sy::problem_view problem,
                                              const sy::explanation& why) {
  std::vector<applied_rule> out;
  const sy::choice& chosen = why.chosen;
  out.push_back({"candidates", std::to_string(rules.candidates.size()) + " variants can run on the device, " +
                                   std::to_string(std::count_if(why.candidates.begin(), why.candidates.end(),
                                                                [](const auto& c) { return c.admissible; })) +
                                   " of them may serve this problem"});
  out.push_back({"force", rules.is_forced ? why.operator_name + ":" + rules.force_text + " decides"
                                          : std::string{"not set"}});
  if (rules.is_forced) return out;
  std::size_t applying = 0;
  for (const sy::bound_pin& each : rules.pins) applying += each.applies(problem) ? 1U : 0U;
  out.push_back({"pins", std::to_string(applying) + " of " + std::to_string(rules.pins.size()) + " apply" +
                             (chosen.why == sy::reason::pinned ? ": " + why.table + " decides"
                              : applying > 0                   ? ", to variants that may not serve"
                                                               : "")});
  if (chosen.why == sy::reason::pinned) return out;
  bool decided = false;
  std::size_t other_types = 0;
  for (std::size_t i = 0; i < rules.groups.size(); ++i) {
    const sy::bound_group& group = rules.groups[i];
    if (!sy::matches(group.type, problem)) {
      ++other_types;
      continue;
    }
    const auto& origin = group.origins.front();
    std::string outcome = decided ? "not asked" : ask_group(rules, group, problem);
    // An extrapolation decides only when no later group does better, so all are asked.
    if (!decided && i == chosen.group) {
      outcome += ": decides";
      decided = static_cast<double>(chosen.distance) <= group.envelope;
    }
    out.push_back({"rows", rules.tables[origin.table]->path + " group " + std::to_string(origin.group) +
                               " (" + std::string{to_string(group.rank)} + ", " +
                               std::to_string(group.row_count()) + " rows) " + outcome});
    if (i != chosen.group) continue;
    for (const sy::lost_row& each : why.lost) {
      out.push_back({"not used", each.table + " group " + std::to_string(each.group) + " has row " +
                                     std::to_string(each.row) + " for the same sizes: " + each.why});
    }
  }
  if (other_types > 0) out.push_back({"rows", std::to_string(other_types) + " groups are of other types"});
  if (rules.groups.empty()) out.push_back({"rows", "no table was measured on a device of this backend"});
  if (chosen.why == sy::reason::heuristic) {
    out.push_back({"order", (rules.candidates[chosen.variant].variant->has_time()
                                 ? "the least cost of the variants that may serve: "
                                 : "the first variant of the manifests that may serve: ") +
                                why.variant + " decides"});
  }
  return out;
}

struct ranked_candidate {
  sy::candidate_report report;
  prediction predicted;
};

[[nodiscard]] std::vector<ranked_candidate> rank_candidates(const sy::selector& rules,
                                                            sy::problem_view problem,
                                                            const sy::explanation& why) {
  const sy::selector of_tables = tables_only(rules);
  std::vector<ranked_candidate> out;
  for (std::uint32_t i = 0; i < why.candidates.size(); ++i) {
    out.push_back({why.candidates[i], {}});
    if (why.candidates[i].admissible) out.back().predicted = predict(of_tables, i, problem);
  }
  if (why.chosen.variant != sy::no_index) {
    std::rotate(out.begin(), out.begin() + why.chosen.variant, out.begin() + why.chosen.variant + 1);
  }
  const auto rest = out.begin() + (why.chosen.variant != sy::no_index ? 1 : 0);
  std::stable_sort(rest, out.end(), [](const ranked_candidate& a, const ranked_candidate& b) {
    const auto key = [](const ranked_candidate& each) {
      return each.report.admissible ? (each.predicted.microseconds > 0 ? 0 : 1) : 2;
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return key(a) == 0 && a.predicted.microseconds < b.predicted.microseconds;
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
  std::int64_t total = 0;
  if (chosen.variant == sy::no_index) return total;
  for (const sy::named_expression& each : rules.candidates[chosen.variant].variant->workspace) {
    total += each.value.evaluate({problem, rules.device.attributes, {}, nullptr}).value;
  }
  return total;
}

/// Rules for a device that nothing is installed for: the variants are those that tables name. Of their
/// conditions nothing is known. Null where no table names any.
[[nodiscard]] std::shared_ptr<const sy::selector> rules_of_tables(sy::catalog& catalog,
                                                                  const sy::operator_description& op,
                                                                  const sy::device_properties& device) {
  const sy::catalog::contents files = catalog.files(op);
  auto named = std::make_shared<sy::manifest>();
  named->path = "the tables";
  named->target = {device.backend, device.arch};
  std::set<std::pair<std::string, std::string>> known;
  for (const auto& table : files.tables) {
    if (table->device.backend != device.backend || table->device.arch != device.arch) continue;
    for (const sy::row_group& group : table->groups) {
      std::string type;
      for (const sy::axis_value& each : group.type)
        type += std::to_string(each.axis) + "=" + std::to_string(each.value) + " ";
      for (const std::string& id : group.ids) {
        if (!known.emplace(id, type).second) continue;
        sy::variant& each = named->variants.emplace_back();
        each.id = id;
        each.type = group.type;
      }
    }
  }
  if (named->variants.empty()) return nullptr;
  std::vector<std::string> ignored;
  return sy::build_selector(
      {files.described != nullptr ? files.described : &op, device, {named}, files.overlays, files.tables, {}},
      ignored);
}

void print_text(const sy::selector& rules, const stated_problem& problem, const known_device& device,
                const sy::explanation& why, bool all, const std::string& note) {
  const std::string line =
      why.variant.empty() ? sy::explain_failure(rules, problem.values) : sy::to_string(why);
  std::printf("%s\n", sy::text::printable(line).c_str());
  if (!note.empty()) std::printf("\nnote: %s\n", note.c_str());
  std::printf("\ndevice from %s\n", sy::text::printable(device.source).c_str());
  if (!problem.assumed.empty()) std::printf("assumed: %s\n", sy::text::join(problem.assumed, 40).c_str());
  std::printf("\nrules\n");
  for (const applied_rule& each : trace(rules, problem.values, why)) {
    std::printf("  %-10s  %s\n", each.name.c_str(), sy::text::printable(each.outcome).c_str());
  }
  const ordered_json launches = describe_launches(rules, problem.values, why.chosen);
  if (!launches.empty()) {
    std::printf("\nlaunches, with %lld bytes of workspace\n",
                static_cast<long long>(workspace_bytes(rules, problem.values, why.chosen)));
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
  std::printf("\ncandidates, with the time that tables give or predict\n");
  std::size_t other_types = 0;
  std::size_t index = 0;
  for (const ranked_candidate& each : rank_candidates(rules, problem.values, why)) {
    const bool is_chosen = index++ == 0 && !why.variant.empty();
    const sy::candidate_report& report = each.report;
    if (!report.admissible && report.obstacle.starts_with("serves ") && !all) {
      ++other_types;
      continue;
    }
    const std::string time = each.predicted.microseconds > 0
                                 ? sy::text::number(each.predicted.microseconds) + " us"
                                 : std::string{"-"};
    std::printf("  %12s  %-26s %s%s%s\n", time.c_str(), report.variant.c_str(),
                (report.target + (report.config.empty() ? "" : "; " + report.config)).c_str(),
                is_chosen           ? "  <- chosen"
                : report.admissible ? ""
                                    : "  not now: ",
                sy::text::printable(report.obstacle).c_str());
  }
  if (other_types > 0) std::printf("  and %zu that serve other types (--all shows them)\n", other_types);
}

void print_json(const sy::selector& rules, const stated_problem& problem, const known_device& device,
                const sy::explanation& why, const std::string& note) {
  const sy::operator_description& op = *rules.op;
  ordered_json out{{"operator", why.operator_name}, {"problem", ordered_json::object()}};
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const sy::axis_description& axis = op.axes[i];
    auto& value = out["problem"][std::string{axis.name}];
    if (axis.value_names.empty()) {
      value = problem.values[i];
    } else {
      value = sy::format_value(axis, problem.values[i]);
    }
  }
  out["assumed"] = problem.assumed;
  if (!note.empty()) out["note"] = note;
  out["device"] = {{"name", device.properties.name},
                   {"backend", device.properties.backend},
                   {"arch", device.properties.arch},
                   {"source", device.source}};
  const sy::choice& chosen = why.chosen;
  if (why.variant.empty()) {
    out["choice"] = nullptr;
    out["failure"] = sy::explain_failure(rules, problem.values);
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
  for (const applied_rule& each : trace(rules, problem.values, why)) {
    out["rules"].push_back({{"rule", each.name}, {"outcome", each.outcome}});
  }
  out["workspace_bytes"] = workspace_bytes(rules, problem.values, chosen);
  out["launches"] = describe_launches(rules, problem.values, chosen);
  out["candidates"] = ordered_json::array();
  for (const ranked_candidate& each : rank_candidates(rules, problem.values, why)) {
    ordered_json candidate{{"variant", each.report.variant},
                           {"target", each.report.target},
                           {"config", each.report.config},
                           {"admissible", each.report.admissible}};
    if (!each.report.admissible) candidate["obstacle"] = each.report.obstacle;
    if (each.predicted.microseconds > 0) {
      candidate["microseconds"] = each.predicted.microseconds;
      candidate["basis"] = to_string(each.predicted.basis);
    }
    out["candidates"].push_back(std::move(candidate));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

void run(const explain_arguments& arguments, session& session) {
  sy::catalog catalog{session.options()};
  const known_operator& known = require_operator(arguments.operator_name, catalog.roots());
  const known_device device = require_device(catalog, arguments.device, arguments.attributes);
  auto rules = catalog.rules(*known.description, device.properties);  // files add axes
  const stated_problem problem = read_problem(known, arguments.words);
  require_named(*rules->op, *known.description, problem);
  std::string note;
  if (rules->candidates.empty()) {
    if (auto of_tables = rules_of_tables(catalog, *known.description, device.properties)) {
      rules = std::move(of_tables);
      note =
          "no kernels for this device are installed here, so the variants are those that tables name. Their "
          "conditions, grids and configurations are in manifests, which are made when kernels are built";
    }
  }
  const sy::explanation why = sy::explain(*rules, problem.values, rules->select(problem.values));
  if (session.json) {
    print_json(*rules, problem, device, why, note);
  } else {
    print_text(*rules, problem, device, why, arguments.all, note);
  }
  if (why.variant.empty()) session.status = status_finding;
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
  command->add_flag("--all", arguments->all, "Show candidates of other types too");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
