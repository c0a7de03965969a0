// SPDX-License-Identifier: MIT
// Finds variants that cannot be chosen, or that nothing chooses.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <switchyard/base/sha256.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/problem/problem.hpp>

#include "check/demands.hpp"
#include "check/findings.hpp"
#include "check/together.hpp"
#include "devices.hpp"
#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

void together::check_conditions(const sy::manifest& from) {
  sy::scope names = sy::detail::make_scope(op_);
  sy::device_properties device;
  device.backend = from.target.backend;
  device.arch = from.target.arch;
  complete_properties(device);
  if (device.backend == "cuda")
    names.add_constant("compute_capability", device.attribute("compute_capability"));
  // PTX, and code for a family, run on devices with other numbers.
  if (!from.target.arch.starts_with("sm_")) names = sy::detail::make_scope(op_);
  if (device.backend != "host") names.add_constant("warp_size", device.attribute("warp_size"));
  const std::size_t size = names.size();
  folded_findings never;
  folded_findings faults;
  for (const sy::variant& variant : from.variants) {
    names.truncate(size);
    for (const sy::axis_value& value : variant.type)
      names.add_constant(op_.axes[value.axis].name, value.value);
    for (const sy::config_entry& entry : variant.config) names.add_constant(entry.name, entry.value);
    for (const sy::condition& condition : variant.conditions)
      check_condition(from, variant, condition, names, never, faults);
  }
  never.visit([&](const std::string& message) { out_.add(severity::warning, from.path, message); });
  faults.visit([&](const std::string& message) {
    out_.add(severity::error, sy::error_code::invalid_expression, from.path, message);
  });
}

void together::check_condition(const sy::manifest& from, const sy::variant& variant,
                               const sy::condition& condition, const sy::scope& names, folded_findings& never,
                               folded_findings& faults) {
  const std::string what =
      "variant '" + variant.id + "' (" + format_type(op_, variant.type) + ") requires " + condition.text;
  try {
    const sy::expression folded = sy::expression::parse(condition.text, names);
    if (!folded.is_constant() || folded.evaluate({}).value != 0) return;
    never.add(condition.text, what + ", which is never true for its type and config on " +
                                  from.target.backend + " " + from.target.arch + ": it can never be chosen");
  } catch (const sy::expression_error& problem) {
    // The manifest's reader parsed it, so it is a constant that cannot be computed.
    faults.add(condition.text, what + ", which has no value for its type and config: " + problem.what());
  }
}

void together::check_twins(const sy::manifest& from) {
  demand_numbers numbers;
  std::vector<demand> demands;
  for (const sy::variant& variant : from.variants) demands.push_back(numbers.of(variant));
  std::unordered_map<std::string, demand_index> by_work;
  folded_findings found;
  for (std::size_t i = 0; i < from.variants.size(); ++i) {
    const sy::variant& variant = from.variants[i];
    demand_index& others = by_work[format_work(variant)];
    if (const sy::variant* const other = others.find_within(demands[i]); other != nullptr) {
      found.add(other->id, "variant '" + variant.id + "' (" + format_type(op_, variant.type) +
                               ") launches the same kernels in the same way as '" + other->id +
                               "' before it, which serves all of its calls: it is never needed");
    } else {
      others.add(demands[i], numbers, variant);
    }
  }
  found.visit([&](const std::string& message) { out_.add(severity::warning, from.path, message); });
}

void together::check_hidden(const sy::manifest& from) {
  demand_numbers numbers;
  std::vector<demand> demands;
  for (const sy::variant& variant : from.variants) demands.push_back(numbers.of(variant));
  demand_index timed;
  demand_index untimed;
  std::vector<std::string> hidden;
  for (std::size_t i = 0; i < from.variants.size(); ++i) {
    const sy::variant& variant = from.variants[i];
    const bool is_behind = untimed.find_within(demands[i]) != nullptr ||
                           (!variant.has_time() && timed.find_within(demands[i]) != nullptr);
    if (is_behind && !measured_.contains(variant.id)) hidden.push_back(variant.id);
    (variant.has_time() ? timed : untimed).add(demands[i], numbers, variant);
  }
  if (hidden.empty()) return;
  const std::set<std::string> ids{hidden.begin(), hidden.end()};
  out_.add(severity::note, from.path,
           std::to_string(hidden.size()) + " of " + std::to_string(from.variants.size()) +
               " variants come after one that serves the same calls, and no table has their times, so they "
               "run only when pinned or forced: " +
               sy::text::join(ids, 6));
}

void together::check_untuned_targets() {
  for (const auto& from : files_.manifests) {
    const bool tuned = std::any_of(files_.tables.begin(), files_.tables.end(), [&from](const auto& table) {
      return !table->groups.empty() && runs_on(table->device, from->target);
    });
    if (!tuned) {
      out_.add(severity::note, from->path,
               "no table has rows for a device that runs " + from->target.backend + " " + from->target.arch +
                   ": its variants are chosen by the manifest's costs and order");
    }
  }
}

}  // namespace tool
