// SPDX-License-Identifier: MIT
// The bodies of explain_rows.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain_rows.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD std::string format_type_of(const operator_description& op, problem_view problem) {
  std::string out;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const axis_description& axis = op.axes[i];
    if (axis.kind != axis_kind::type || (axis.is_flag && problem[i] == 0)) continue;
    out += (out.empty() ? "" : " ") + std::string{axis.name} + "=" + format_value(axis, problem[i]);
  }
  return std::string{op.name} + " {" + out + "}";
}

/// "group 3 of tables/rotary/x.json"
[[nodiscard]] inline std::string format_group(const selector& from, const indexed_group::origin& of) {
  return "group " + std::to_string(of.group) + " of " + from.tables[of.table]->path;
}

/// "kv=dense,packed": the values of an axis that rows were measured with.
[[nodiscard]] inline std::string format_measured(const operator_description& op, const measured_values& of) {
  std::string out = std::string{op.axes[of.axis].name} + "=";
  for (std::size_t i = 0; i < of.values.size(); ++i) {
    if (i > 0) out += ',';
    out += format_value(op.axes[of.axis], of.values[i]);
  }
  return out;
}

SWITCHYARD_COLD std::string format_unmeasured(const operator_description& op,
                                              const std::vector<measured_values>& recorded,
                                              problem_view problem) {
  std::string out;
  for (const measured_values& measured : recorded) {
    bool is_measured = false;
    for (const std::int64_t value : measured.values)
      is_measured = is_measured || value == problem[measured.axis];
    if (is_measured) continue;
    if (!out.empty()) out += ' ';
    out += format_measured(op, measured);
  }
  return out;
}

SWITCHYARD_COLD std::string explain_silence(const selector& from, problem_view problem,
                                            unusable_flags unusable) {
  for (const indexed_group& group : from.groups) {
    if (!matches(group.type, problem)) continue;
    const std::string name = format_group(from, group.first);
    const std::uint32_t other = from.left_out(group, problem, unusable);
    if (other == no_index) {
      group_query query{from, group, problem, unusable};
      (void)query.choose();
      if (query.stranger() != no_index)
        return "no near row of " + name + " could have '" + from.candidates[query.stranger()].variant->id +
               "', which states a lower time than what they prefer";
      bool serves = false;
      for (const named_candidates& named : group.named)
        serves = serves || from.first_admissible(named.candidates, problem, unusable) != no_index;
      return serves ? "no row of " + name + " holds for its sizes"
                    : "no variant in the rows of " + name + " serves it";
    }
    const std::string with = format_unmeasured(*from.op, group.measured_with, problem);
    return "the rows of " + name + " do not compare '" + from.candidates[other].variant->id +
           "', which serves it" + (with.empty() ? "" : "; they were measured with " + with);
  }
  for (const silent_group& group : from.silent) {
    if (matches(group.type, problem))
      return "no variant in the rows of " + format_group(from, group.first) + " is installed for this device";
  }
  return "no table has rows for it";
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
