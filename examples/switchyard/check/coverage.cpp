// SPDX-License-Identifier: MIT
#include "check/coverage.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>

#include "devices.hpp"
#include "installed.hpp"
#include "operators.hpp"
#include "tune/problems.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

/// The reasons in the order in which they are counted.
constexpr std::array counted{sy::reason::exact,        sy::reason::interpolated, sy::reason::extrapolated,
                             sy::reason::other_device, sy::reason::pinned,       sy::reason::forced,
                             sy::reason::heuristic,    sy::reason::none};

struct undecided_call {
  std::string operator_name;
  std::string problem;
  double calls = 1;
  std::string why;
};

struct operator_coverage {
  std::string name;
  std::array<std::size_t, counted.size()> by_reason{};
  std::size_t incomplete = 0;
  std::string first_incomplete{};  ///< what the first of them lacks
};

struct device_coverage {
  std::string device;
  std::vector<operator_coverage> operators;
  std::vector<undecided_call> undecided;
};

/// The calls of one operator in all lists.
struct listed_operator {
  const known_operator* known;
  std::vector<tuning_problem> calls;
  std::vector<std::string> complaints;
};

[[nodiscard]] std::vector<listed_operator> read_lists(const std::vector<std::string>& paths,
                                                      const sy::catalog& catalog) {
  std::vector<listed_operator> out;
  for (const auto& [name, count] : recorded_operators(paths)) {
    const known_operator& known = require_operator(name, catalog.roots());
    problem_list list{*known.description};
    for (const std::string& path : paths) list.add_file(path);
    out.push_back({&known, list.problems(), list.complaints()});
  }
  if (out.empty()) throw usage_error{"--coverage: " + sy::text::join(paths) + " lists no calls"};
  return out;
}

/// The devices that tables of the operators name.
[[nodiscard]] std::vector<known_device> devices_of_tables(sy::catalog& catalog,
                                                          const std::vector<listed_operator>& operators) {
  std::set<std::pair<std::string, std::string>> named;
  for (const listed_operator& listed : operators) {
    const auto files = catalog.files(*listed.known->description);
    for (const auto* const list : {&files.overlays, &files.tables}) {
      for (const auto& table : *list) named.emplace(table->device.name, table->device.arch);
    }
  }
  std::vector<known_device> out = known_devices(catalog);
  std::erase_if(out, [&named](const known_device& device) {
    return !named.contains({device.properties.name, device.properties.arch});
  });
  if (out.empty()) out.push_back(require_device(catalog, {}, {}));
  return out;
}

/// Judges the calls of an operator on a device.
void judge(sy::catalog& catalog, const known_device& device, const listed_operator& of,
           device_coverage& out) {
  std::shared_ptr<const sy::selector> rules =
      catalog.make_selector(*of.known->description, device.properties);
  if (rules->candidates.empty()) {
    if (auto of_tables =
            rules_of_tables(catalog, *of.known->description, device.properties, rules->force_text))
      rules = std::move(of_tables);
  }
  operator_coverage counts{std::string{of.known->description->name}};
  for (const tuning_problem& call : of.calls) {
    std::vector<std::int64_t> problem(of.known->description->axes.size());
    std::vector<bool> given(problem.size());
    for (const auto& [axis, value] : call.axes) {
      problem[axis] = value;
      given[axis] = true;
    }
    if (const std::string missing = fill_defaults(*of.known, problem, given); !missing.empty()) {
      if (counts.incomplete++ == 0) counts.first_incomplete = missing;
      continue;
    }
    const sy::choice chosen = sy::select_fitting(*rules, problem);
    const auto at = std::find(counted.begin(), counted.end(), chosen.why) - counted.begin();
    ++counts.by_reason[static_cast<std::size_t>(at)];
    if (chosen.why != sy::reason::heuristic && chosen.why != sy::reason::none) continue;
    const sy::explanation why = sy::explain(*rules, problem, chosen);
    out.undecided.push_back({counts.name, call.text(*of.known->description), call.weight,
                             chosen.why == sy::reason::none ? "no variant serves it" : why.note});
  }
  out.operators.push_back(std::move(counts));
}

[[nodiscard]] std::string format_counts(const operator_coverage& of) {
  std::string out;
  std::size_t total = of.incomplete;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    total += of.by_reason[i];
    if (of.by_reason[i] == 0) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(of.by_reason[i]) + " " +
           std::string{to_string(counted[i])};
  }
  if (of.incomplete > 0) {
    out += (out.empty() ? "" : ", ") + std::to_string(of.incomplete) +
           " not judged: the list does not give " + of.first_incomplete;
  }
  return std::to_string(total) + (total == 1 ? " call: " : " calls: ") + out;
}

void print_text(const std::vector<device_coverage>& found) {
  for (const device_coverage& device : found) {
    std::printf("%s\n", sy::text::printable(device.device).c_str());
    for (const operator_coverage& of : device.operators)
      std::printf("  %-26s %s\n", of.name.c_str(), format_counts(of).c_str());
    for (const undecided_call& call : device.undecided) {
      std::printf("  no row decides %s %s, called %s: %s\n", call.operator_name.c_str(), call.problem.c_str(),
                  call.calls == 1 ? "once" : (sy::text::number(call.calls) + " times").c_str(),
                  sy::text::printable(call.why).c_str());
    }
  }
}

void print_json(const std::vector<device_coverage>& found) {
  ordered_json out{{"devices", ordered_json::array()}};
  for (const device_coverage& coverage : found) {
    ordered_json device{{"device", coverage.device},
                        {"operators", ordered_json::array()},
                        {"undecided", ordered_json::array()}};
    for (const operator_coverage& of : coverage.operators) {
      ordered_json counts{{"operator", of.name}, {"incomplete", of.incomplete}};
      for (std::size_t i = 0; i < counted.size(); ++i)
        counts[std::string{to_string(counted[i])}] = of.by_reason[i];
      device["operators"].push_back(std::move(counts));
    }
    for (const undecided_call& call : coverage.undecided) {
      device["undecided"].push_back({{"operator", call.operator_name},
                                     {"problem", call.problem},
                                     {"calls", call.calls},
                                     {"why", call.why}});
    }
    out["devices"].push_back(std::move(device));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

void check_coverage(const coverage_settings& settings, session& session) {
  sy::catalog catalog{session.options()};
  const std::vector<listed_operator> operators = read_lists(settings.lists, catalog);
  std::vector<known_device> devices;
  for (const std::string& name : settings.devices) devices.push_back(require_device(catalog, name, {}));
  if (devices.empty()) devices = devices_of_tables(catalog, operators);
  std::vector<device_coverage> found;
  for (const known_device& device : devices) {
    device_coverage coverage{
        device.properties.name + " (" + device.properties.backend + " " + device.properties.arch + ")",
        {},
        {}};
    for (const listed_operator& of : operators) judge(catalog, device, of, coverage);
    if (!coverage.undecided.empty()) session.status = status_finding;
    found.push_back(std::move(coverage));
  }
  for (const listed_operator& listed : operators) {
    for (const std::string& complaint : listed.complaints)
      std::fprintf(stderr, "warning: %s\n", sy::text::printable(complaint).c_str());
  }
  if (session.json) {
    print_json(found);
  } else {
    print_text(found);
  }
}

}  // namespace tool
