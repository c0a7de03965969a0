// SPDX-License-Identifier: MIT
// Puts measurements into the rows of a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/files/add_measured.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// A variant's time in a row to be.
struct row_entry {
  std::string variant;
  double microseconds = 0;
};

/// The row of a group at the problem's sizes; row_count() when it has none.
[[nodiscard]] inline std::size_t find_row(const row_group& group, problem_view problem) {
  for (std::size_t row = 0; row < group.row_count(); ++row) {
    const auto at = group.coordinates(row);
    bool same = true;
    for (std::size_t i = 0; i < at.size(); ++i) same = same && at[i] == problem[group.axes[i]];
    if (same) return row;
  }
  return group.row_count();
}

/// A group without one of its rows, and without the variants that no row names any more.
[[nodiscard]] inline row_group without_rows(const row_group& group, const std::vector<bool>& gone) {
  row_group out;
  out.type = group.type;
  out.axes = group.axes;
  out.measured_with = group.measured_with;
  out.timed = group.timed;
  for (std::size_t row = 0; row < group.row_count(); ++row) {
    if (gone[row]) continue;
    const auto at = group.coordinates(row);
    out.at.insert(out.at.end(), at.begin(), at.end());
    for (const measured_time& time : group.row_times(row)) {
      const auto found = std::find(out.ids.begin(), out.ids.end(), group.ids[time.variant]);
      const auto id = static_cast<std::uint32_t>(found - out.ids.begin());
      if (found == out.ids.end()) {
        out.ids.push_back(group.ids[time.variant]);
        out.blobs.push_back(time.variant < group.blobs.size() ? group.blobs[time.variant] : std::string{});
      }
      out.times.push_back({id, time.microseconds});
    }
    out.first_time.push_back(static_cast<std::uint32_t>(out.times.size()));
    out.source_row.push_back(static_cast<std::uint32_t>(out.row_count() - 1));
    out.uncertainty.push_back(static_cast<float>(group.row_uncertainty(row)));
  }
  return out;
}

/// The group of a table that holds for `type`, has times and has every size axis of the operator; null where
/// there is none.
[[nodiscard]] inline row_group* find_group(table& in, const operator_description& op,
                                           const std::vector<axis_value>& type) {
  for (row_group& group : in.groups) {
    if (group.type != type || !group.timed) continue;
    const bool all = std::all_of(op.axes.begin(), op.axes.end(), [&](const axis_description& axis) {
      const auto index = static_cast<std::uint32_t>(&axis - op.axes.data());
      return axis.kind != axis_kind::size ||
             std::find(group.axes.begin(), group.axes.end(), index) != group.axes.end();
    });
    if (all) return &group;
  }
  return nullptr;
}

/// Records with which values of the type axes that a group does not name one of its rows is
/// measured.
inline void record_type(row_group& group, const operator_description& op, problem_view problem) {
  for (std::uint32_t axis = 0; axis < op.axes.size() && axis < problem.size(); ++axis) {
    const bool is_named = std::any_of(group.type.begin(), group.type.end(),
                                      [axis](const axis_value& value) { return value.axis == axis; });
    if (op.axes[axis].kind == axis_kind::type && !is_named)
      add_measured(group.measured_with, axis, problem.subspan(axis, 1));
  }
}

/// Puts the `most` fastest times of a problem into the group that holds for `type`, which is sorted by axis;
/// makes the group where there is none, and replaces a row of the same sizes.
inline void put_row(table& into, const operator_description& op, problem_view problem,
                    const std::vector<axis_value>& type, std::vector<row_entry> times, double uncertainty,
                    std::size_t most) {
  if (times.empty()) return;
  row_group* group = find_group(into, op, type);
  if (group == nullptr) {
    group = &into.groups.emplace_back();
    group->source_group = static_cast<std::uint32_t>(into.groups.size() - 1);
    group->type = type;
    for (std::uint32_t i = 0; i < op.axes.size(); ++i) {
      if (op.axes[i].kind == axis_kind::size) group->axes.push_back(i);
    }
  }
  record_type(*group, op, problem);
  if (const std::size_t old = find_row(*group, problem); old < group->row_count()) {
    std::vector<bool> gone(group->row_count());
    gone[old] = true;
    *group = without_rows(*group, gone);
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const row_entry& a, const row_entry& b) { return a.microseconds < b.microseconds; });
  if (times.size() > most) times.resize(most);
  for (const row_entry& row : times) {
    const auto found = std::find(group->ids.begin(), group->ids.end(), row.variant);
    const auto id = static_cast<std::uint32_t>(found - group->ids.begin());
    if (found == group->ids.end()) group->ids.push_back(row.variant);
    group->times.push_back({id, static_cast<float>(row.microseconds)});
  }
  group->blobs.resize(group->ids.size());
  for (const std::uint32_t axis : group->axes) group->at.push_back(problem[axis]);
  group->first_time.push_back(static_cast<std::uint32_t>(group->times.size()));
  group->source_row.push_back(static_cast<std::uint32_t>(group->row_count() - 1));
  group->uncertainty.resize(group->row_count());
  group->uncertainty.back() = static_cast<float>(std::min(uncertainty, 1.0));
}

/// Takes a variant's times out of every row of the groups that hold for a problem of `type`; rows that have
/// no other go. Returns how many times there were.
inline std::size_t remove_variant(table& from, const std::string& id, const std::vector<axis_value>& type) {
  std::size_t removed = 0;
  for (row_group& group : from.groups) {
    const bool contradicts = std::any_of(group.type.begin(), group.type.end(), [&](const axis_value& has) {
      return std::any_of(type.begin(), type.end(), [&](const axis_value& asked) {
        return asked.axis == has.axis && asked.value != has.value;
      });
    });
    if (contradicts) continue;
    row_group kept = group;
    kept.times.clear();
    kept.first_time = {0};
    std::vector<bool> gone;
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      for (const measured_time& time : group.row_times(row)) {
        if (group.ids[time.variant] == id) {
          ++removed;
        } else {
          kept.times.push_back(time);
        }
      }
      gone.push_back(kept.times.size() == kept.first_time.back());
      kept.first_time.push_back(static_cast<std::uint32_t>(kept.times.size()));
    }
    group = without_rows(kept, gone);
  }
  std::erase_if(from.groups, [](const row_group& group) { return group.row_count() == 0; });
  return removed;
}

}  // namespace v0
}  // namespace switchyard
