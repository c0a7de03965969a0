// SPDX-License-Identifier: MIT
// The bodies of read_group.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/stable_order.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/add_measured.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_axes.hpp>
#include <switchyard/files/read_group.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION row_group group_reader::read(const json_place& place) {
  row_group out;
  out.type = read_served_type(place, op_);
  out.axes = read_axes(place, op_);
  if (place.has("measured_with")) read_measured_with(place.at("measured_with"), out);
  const auto rows = place.at("rows");
  const std::size_t count = rows.array_size();
  out.at.reserve(count * out.axes.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows.at(i);
    try {
      read_row(row, i, out);
    } catch (const file_error& problem) {
      out.at.resize(out.row_count() * out.axes.size());
      out.times.resize(out.first_time.back());
      warned_.add(problem.what());
    }
  }
  out.blobs.resize(out.ids.size());
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    if (const auto found = file_blobs_.find(out.ids[i]); found != file_blobs_.end())
      out.blobs[i] = found->second;
  }
  if (place.has("blobs")) {
    const auto blobs = place.at("blobs");
    for (const auto& [id, unused] : blobs.object()) {
      const auto entry = blobs.at(id.c_str());
      if (const auto found = ids_.find(id); found != ids_.end()) out.blobs[found->second] = entry.string();
    }
  }
  return out;
}

SWITCHYARD_FUNCTION std::vector<std::uint32_t> group_reader::read_axes(const json_place& place,
                                                                       const operator_description& op) {
  std::vector<std::uint32_t> out;
  const auto axes = place.at("axes");
  for (std::size_t i = 0; i < axes.array_size(); ++i) {
    const auto entry = axes.at(i);
    const std::uint32_t axis = read_axis_name(entry, op, entry.string(), axis_kind::size);
    if (op.axes[axis].kind != axis_kind::size) {
      entry.fail(error_code::unknown_axis, "'" + entry.string() + "' is a type axis; put it into 'type'");
    }
    if (std::find(out.begin(), out.end(), axis) != out.end())
      entry.fail("axis '" + std::string{op.axes[axis].name} +
                 "' is listed twice, perhaps under a former name; remove one of the two");
    out.push_back(axis);
  }
  return out;
}

SWITCHYARD_FUNCTION void group_reader::read_measured_with(const json_place& place, row_group& out) const {
  check_given_once(place, op_);
  for (const auto& [name, value] : place.object()) {
    const std::uint32_t axis = read_axis_name(place, op_, name);
    const auto entry = place.at(name.c_str());
    if (axis_at(op_, axis).kind != axis_kind::type)
      entry.fail(error_code::unknown_axis, "'" + name + "' is a size axis; the rows give its values");
    if (detail::any_of(out.type.begin(), out.type.end(),
                       [axis](const axis_value& known) { return known.axis == axis; }))
      entry.fail("'type' names this axis already; remove one of the two");
    std::vector<std::int64_t> values;
    if (value.is_array()) {
      for (std::size_t i = 0; i < entry.array_size(); ++i)
        values.push_back(read_axis_value(entry.at(i), axis_at(op_, axis)));
      if (values.empty()) entry.fail("expected a value, or a list of at least one");
    } else {
      values.push_back(read_axis_value(entry, axis_at(op_, axis)));
    }
    add_measured(out.measured_with, axis, values);
  }
}

SWITCHYARD_FUNCTION void group_reader::sort_times(std::span<measured_time> of_row) {
  const auto faster = [](const measured_time& a, const measured_time& b) {
    return a.microseconds < b.microseconds;
  };
  if (of_row.size() > 64) {  // not even a wrong file takes quadratic time
    const std::vector<measured_time> all{of_row.begin(), of_row.end()};
    std::size_t at = 0;
    for (const std::uint32_t number : stable_order(all, faster)) of_row[at++] = all[number];
    return;
  }
  for (std::size_t i = 1; i < of_row.size(); ++i) {
    const measured_time moved = of_row[i];
    std::size_t at = i;
    for (; at > 0 && faster(moved, of_row[at - 1]); --at) of_row[at] = of_row[at - 1];
    of_row[at] = moved;
  }
}

SWITCHYARD_FUNCTION void group_reader::put_first(const json_place& place, row_group& out) {
  const std::string& id = place.string();
  const auto begin = out.times.begin() + out.first_time.back();
  const auto found = detail::find_if(begin, out.times.end(),
                                     [&](const measured_time& time) { return out.ids[time.variant] == id; });
  if (found == out.times.end()) place.fail("the row has no time of '" + id + "'");
  std::rotate(begin, found, found + 1);
}

SWITCHYARD_FUNCTION std::uint32_t group_reader::number_of(const json_place& entry, const std::string& id,
                                                          row_group& out) {
  auto found = ids_.find(id);
  if (found == ids_.end()) {
    entry.check_id(id);
    found = ids_.emplace(id, static_cast<std::uint32_t>(out.ids.size())).first;
    out.ids.push_back(id);
  }
  return found->second;
}

SWITCHYARD_FUNCTION void group_reader::read_times(const json_place& times, row_group& out) {
  if (times.object().empty()) times.fail("a row has at least one time");
  for (const auto& [id, value] : times.object()) {
    const auto entry = times.at(id.c_str());
    const double microseconds = entry.number();
    if (!(microseconds >= 1e-6 && microseconds <= 1e12)) entry.fail("expected a time from 1e-6 to 1e12 us");
    out.times.push_back({number_of(entry, id, out), static_cast<float>(microseconds)});
  }
}

SWITCHYARD_FUNCTION void group_reader::read_winners(const json_place& row, row_group& out) {
  for (const char* const other : {"times_us", "first", "uncertainty"}) {
    if (row.has(other)) row.at(other).fail("a row with 'winners' has no times; remove one of the two");
  }
  const auto list = row.at("winners");
  if (list.array_size() == 0) list.fail("a row names at least one variant");
  double made_up = 1;
  for (std::size_t i = 0; i < list.array_size() && i < max_winners; ++i, made_up *= 1.1) {
    const auto entry = list.at(i);
    const std::uint32_t number = number_of(entry, entry.id(), out);
    const auto begin = out.times.begin() + out.first_time.back();
    if (detail::any_of(begin, out.times.end(), [number](const auto& time) { return time.variant == number; }))
      entry.fail("'" + entry.string() + "' is listed twice");
    out.times.push_back({number, static_cast<float>(made_up)});
  }
}

SWITCHYARD_FUNCTION void group_reader::read_row(const json_place& place, std::size_t index, row_group& out) {
  const auto at = place.at("at");
  if (at.array_size() != out.axes.size()) {
    at.fail("expected " + std::to_string(out.axes.size()) + " integers, got " +
            std::to_string(at.array_size()));
  }
  const std::size_t begin = out.at.size();
  for (std::size_t i = 0; i < out.axes.size(); ++i) {
    const auto entry = at.at(i);
    const std::int64_t value = entry.integer();
    if (value < 0) entry.fail("a size must not be negative, got " + std::to_string(value));
    out.at.push_back(value);
  }
  const bool timed = !place.has("winners");
  if (out.row_count() > 0 && timed != out.timed)
    place.fail("the rows of a group have either 'times_us' or 'winners'; use two groups");
  if (timed) {
    read_times(place.at("times_us"), out);
  } else {
    read_winners(place, out);
  }
  out.timed = timed;
  if (!seen_.emplace(out.at.begin() + static_cast<std::ptrdiff_t>(begin), out.at.end()).second) {
    at.fail("the group already has a row for these sizes; the first is used");
  }
  sort_times(std::span{out.times}.subspan(out.first_time.back()));
  if (place.has("first")) put_first(place.at("first"), out);
  if (place.has("uncertainty")) {
    const auto entry = place.at("uncertainty");
    const double share = entry.number();
    if (!(share >= 0 && share <= 1)) entry.fail("expected a fraction of the times, from 0 to 1");
    out.uncertainty.resize(out.row_count());
    out.uncertainty.push_back(static_cast<float>(share));
  }
  out.first_time.push_back(static_cast<std::uint32_t>(out.times.size()));
  out.source_row.push_back(static_cast<std::uint32_t>(index));
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
