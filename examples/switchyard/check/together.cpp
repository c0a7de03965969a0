// SPDX-License-Identifier: MIT
// Checks manifests against tables: rows of kernels that changed or were removed, and types without rows.
#include "check/together.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <switchyard/base/sha256.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/problem/problem.hpp>

#include "check/demands.hpp"
#include "check/findings.hpp"
#include "devices.hpp"
#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

together::together(const known_operator& known, const operator_files& files, report& out)
    : op_{*known.description}, files_{files}, out_{out} {
  for (const auto& from : files_.manifests) {
    for (const sy::variant& variant : from->variants) by_id_[variant.id].push_back({from.get(), &variant});
  }
  for (const auto& table : files_.tables) {
    for (const sy::row_group& group : table->groups) measured_.insert(group.ids.begin(), group.ids.end());
  }
}

void together::run() {
  for (const auto& from : files_.manifests) {
    if (files_.borrowed) break;
    check_conditions(*from);
    check_twins(*from);
    check_hidden(*from);
  }
  for (const auto& table : files_.tables) {
    check_ids(*table);
    check_stale(*table);
    check_rows(*table);
    check_coverage(*table);
    check_denials(*table);
  }
  if (!files_.borrowed) check_untuned_targets();
}

void together::check_ids(const sy::table& from) {
  if (by_id_.empty()) return;
  std::map<std::string, std::string> unknown;  // and the first place that names each
  bool all_were_built = true;                  // of those: tuning wrote down which blobs it measured
  const auto look = [&](const std::string& id, const std::string& place, bool was_built) {
    if (by_id_.contains(id)) return;
    unknown.try_emplace(id, place);
    all_were_built = all_were_built && was_built;
  };
  for (std::size_t i = 0; i < from.groups.size(); ++i) {
    const sy::row_group& group = from.groups[i];
    for (std::size_t id = 0; id < group.ids.size(); ++id)
      look(group.ids[id], "group " + std::to_string(i), !group.blobs[id].empty());
  }
  for (const sy::denial& denial : from.denials) look(denial.variant, "a denial", false);
  for (const sy::pin& pin : from.pins) look(pin.variant, "a pin", false);
  if (unknown.empty()) return;
  std::vector<std::string_view> known;
  for (const auto& [name, unused] : by_id_) known.emplace_back(name);
  const auto& [id, place] = *unknown.begin();
  const bool anything_runs =
      std::any_of(files_.manifests.begin(), files_.manifests.end(),
                  [&from](const auto& manifest) { return runs_on(from.device, manifest->target); });
  std::string text;
  severity level = severity::warning;
  if (!anything_runs) {
    level = severity::note;
    text = "no kernels for " + from.device.name + " (" + from.device.backend + " " + from.device.arch +
           ") are here, so " + std::to_string(unknown.size()) +
           " variants that the table names were not compared with a manifest";
  } else if (all_were_built) {
    level = severity::note;
    std::vector<std::string_view> names;
    for (const auto& [name, unused] : unknown) names.emplace_back(name);
    text = std::to_string(unknown.size()) +
           " variants that the table has times of are not installed, so these times are not used: " +
           sy::text::join(names, 4) + ". They were measured, but are not among the kernels built here";
  } else if (unknown.size() == 1) {
    text = place + " names variant '" + id + "', which is in no manifest of the operator" +
           sy::text::suggestion(id, known) + " It is not used";
  } else {
    std::vector<std::string_view> names;
    for (const auto& [name, unused] : unknown) names.emplace_back(name);
    text =
        std::to_string(unknown.size()) +
        " variants that the table names are in no manifest of the operator, so their times are not used: " +
        sy::text::join(names, 4) + ". They were not built here, or were renamed" +
        sy::text::suggestion(id, known);
  }
  out_.add(level, sy::error_code::unknown_variant, from.path, text);
}

std::vector<together::placed_variant> together::meant_by(const sy::table& from, const sy::row_group& group,
                                                         const std::string& id) const {
  std::vector<placed_variant> out;
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return out;
  for (const placed_variant& placed : found->second) {
    if (compatible(placed.variant->type, group.type) && runs_on(from.device, placed.from->target))
      out.push_back(placed);
  }
  return out;
}

bool together::runs_on(const sy::device_properties& device, const sy::target& target) {
  return device.backend.empty() || sy::target_fit(device, target.backend, target.arch).has_value();
}

void together::check_stale(const sy::table& from) {
  std::map<std::string, std::size_t> stale;
  for (const sy::row_group& group : from.groups) {
    for (std::size_t i = 0; i < group.ids.size(); ++i) {
      if (group.blobs[i].empty()) continue;
      const auto meant = meant_by(from, group, group.ids[i]);
      const bool current = std::any_of(meant.begin(), meant.end(), [&](const placed_variant& placed) {
        return sy::blob_fingerprint(*placed.variant) == group.blobs[i];
      });
      if (meant.empty() || current) continue;
      for (const sy::measured_time& time : group.times) stale[group.ids[i]] += time.variant == i ? 1U : 0U;
    }
  }
  if (stale.empty()) return;
  std::size_t times = 0;
  std::vector<std::string> names;
  for (const auto& [id, rows] : stale) {
    times += rows;
    names.push_back("'" + id + "'");
  }
  out_.add(severity::warning, from.path,
           std::to_string(times) + " times of variant" + (names.size() > 1 ? "s " : " ") +
               sy::text::join(names, 4) +
               " are stale: the blobs changed since they were measured. They are still used; tune again");
}

void together::check_rows(const sy::table& from) {
  sy::device_properties device = from.device;
  complete_properties(device);
  std::vector<std::int64_t> problem(op_.axes.size());
  for (std::size_t g = 0; g < from.groups.size(); ++g) {
    const sy::row_group& group = from.groups[g];
    std::vector<bool> known(op_.axes.size());
    for (const sy::axis_value& value : group.type) {
      problem[value.axis] = value.value;
      known[value.axis] = true;
    }
    for (const std::uint32_t axis : group.axes) known[axis] = true;
    for (std::size_t id = 0; id < group.ids.size(); ++id) {
      const auto meant = meant_by(from, group, group.ids[id]);
      if (meant.size() != 1) continue;
      check_times(from, g, id, *meant.front().variant, device, known, problem);
    }
  }
}

void together::check_times(const sy::table& from, std::size_t g, std::size_t id, const sy::variant& variant,
                           const sy::device_properties& device, const std::vector<bool>& known,
                           std::vector<std::int64_t>& problem) {
  const sy::row_group& group = from.groups[g];
  // Only conditions on axes that the row has: other axes could have any value.
  sy::scope names;
  for (const sy::config_entry& entry : variant.config) names.add_constant(entry.name, entry.value);
  const sy::scope all = sy::detail::make_scope(op_);
  for (const std::string_view name : all.names()) {
    const sy::symbol& meaning = *all.find(name);
    if (meaning.from == sy::symbol::source::constant ||
        (meaning.from == sy::symbol::source::axis && known[meaning.index])) {
      names.add(name, meaning);
    }
  }
  std::vector<sy::condition> decidable;
  for (const sy::condition& condition : variant.conditions) {
    try {
      decidable.push_back({condition.text, sy::expression::parse(condition.text, names)});
    } catch (const sy::expression_error&) {  // it reads an axis that the row does not have
    }
  }
  for (std::size_t row = 0; row < group.row_count(); ++row) {
    const auto times = group.row_times(row);
    if (std::none_of(times.begin(), times.end(), [id](const auto& time) { return time.variant == id; }))
      continue;
    for (std::size_t i = 0; i < group.axes.size(); ++i) problem[group.axes[i]] = group.coordinates(row)[i];
    const sy::evaluation values{problem, device.attributes, {}, nullptr};
    for (const sy::condition& condition : decidable) {
      const sy::integer_result holds = condition.value.evaluate(values);
      if (holds.why == sy::fault::none && holds.value != 0) continue;
      out_.add(severity::warning, from.path,
               "/groups/" + std::to_string(group.source_group) + "/rows/" +
                   std::to_string(group.source_row[row]) + " has a time of '" + variant.id +
                   "', which requires " + condition.text + " and so does not serve these sizes");
      return;  // one row is enough
    }
  }
}

void together::check_coverage(const sy::table& from) {
  if (from.groups.empty()) return;  // an overlay that denies or pins
  std::vector<std::string> uncovered;
  for (const std::vector<sy::axis_value>& type : types_on(from.device)) {
    const bool covered =
        std::any_of(from.groups.begin(), from.groups.end(), [&type](const sy::row_group& group) {
          return group.row_count() > 0 && compatible(group.type, type) &&
                 was_measured(group.measured_with, type);
        });
    if (!covered) uncovered.push_back("{" + format_type(op_, type) + "}");
  }
  if (!uncovered.empty()) {
    out_.add(severity::warning, from.path,
             std::to_string(uncovered.size()) + " types that variants serve on " + from.device.name +
                 " have no rows here: " + sy::text::join(uncovered, 6) +
                 ". Their calls use the manifest's costs and order");
  }
}

bool together::is_denied(const sy::table& by, const sy::variant& variant) const {
  const auto denies = [&variant](const sy::table& table) {
    return std::any_of(table.denials.begin(), table.denials.end(), [&variant](const sy::denial& denied) {
      return denied.variant == variant.id && covers(denied.type, variant.type);
    });
  };
  return denies(by) || std::any_of(files_.tables.begin(), files_.tables.end(), [&](const auto& other) {
           return other->device.backend.empty() && denies(*other);
         });
}

void together::check_denials(const sy::table& from) {
  if (from.denials.empty()) return;
  std::vector<const sy::variant*> here;
  for (const auto& manifest : files_.manifests) {
    if (!runs_on(from.device, manifest->target)) continue;
    for (const sy::variant& variant : manifest->variants) here.push_back(&variant);
  }
  std::set<std::string> denied_ids;
  for (const sy::denial& denial : from.denials) denied_ids.insert(denial.variant);
  constexpr std::size_t max_told = 6;
  std::set<std::string> refused;
  std::set<std::string> seen;
  for (const sy::variant* const variant : here) {
    if (refused.size() == max_told) break;  // each costs a search of every variant
    if (!denied_ids.contains(variant->id) || !seen.insert(format_type(op_, variant->type)).second) continue;
    const bool all = std::all_of(here.begin(), here.end(), [&](const sy::variant* other) {
      return !compatible(other->type, variant->type) || is_denied(from, *other);
    });
    if (all) refused.insert("{" + format_type(op_, variant->type) + "}");
  }
  if (refused.empty()) return;
  out_.add(severity::error, sy::error_code::no_variant, from.path,
           "every variant that serves " + sy::text::join(refused, max_told) +
               " is denied, so their calls are refused: remove a denial, or install another variant");
}

std::vector<std::vector<sy::axis_value>> together::types_on(const sy::device_properties& device) const {
  std::vector<std::vector<sy::axis_value>> out;
  std::set<std::string> seen;
  for (const auto& from : files_.manifests) {
    if (!runs_on(device, from->target)) continue;
    for (const sy::variant& variant : from->variants) {
      if (seen.insert(format_type(op_, variant.type)).second) out.push_back(variant.type);
    }
  }
  return out;
}

void check_together(const known_operator& known, const operator_files& files, report& out) {
  together{known, files, out}.run();
}

}  // namespace tool
