// SPDX-License-Identifier: MIT
// The bodies of read_axes.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_axes.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION void check_operator(const json_place& file, const operator_description& op) {
  const auto place = file.at("operator");
  if (place.string() != op.name) {
    place.fail(error_code::unknown_operator, "is for operator '" + place.string() +
                                                 "', but was found where files of '" + std::string{op.name} +
                                                 "' belong; move it, or correct the name");
  }
}

SWITCHYARD_FUNCTION std::int64_t read_axis_value(const json_place& place, const axis_description& axis) {
  const auto names = axis.value_names;
  const auto no_value = [&](const std::string& found) {
    place.fail("axis '" + std::string{axis.name} + "' has no value '" + found + "'; it has " +
               text::join(names));
  };
  std::int64_t value = 0;
  if (place.value().is_boolean()) {
    if (names.empty()) place.expected("an integer");
    if (names.size() != 2 || names[1] != "true") no_value(place.boolean() ? "true" : "false");
    return place.boolean() ? 1 : 0;
  }
  if (place.value().is_string()) {
    const auto parsed = parse_value(axis, place.string());
    if (!parsed && names.empty()) place.expected("an integer");
    if (!parsed) no_value(place.string());
    value = *parsed;
  } else {
    value = place.integer();
  }
  if (!names.empty() && (value < 0 || static_cast<std::size_t>(value) >= names.size()))
    no_value(std::to_string(value));
  return value;
}

SWITCHYARD_FUNCTION std::uint32_t read_axis_name(const json_place& place, const operator_description& op,
                                                 const std::string& name, axis_kind kind) {
  if (const std::uint32_t index = find_axis(op, name); index < op.axes.size()) return index;
  const std::uint32_t added =
      kind == axis_kind::type ? find_condition(op, name) : std::uint32_t{added_axes::no_axis};
  if (added == added_axes::no_room) place.fail(error_code::invalid_expression, describe_no_room(op, name));
  if (added != added_axes::no_axis) return added;
  if (is_argument(op, name)) place.fail(error_code::unknown_axis, describe_argument(op, name, name));
  std::vector<std::string_view> names;
  for (const axis_description& axis : op.axes.first(op.own_axes())) names.push_back(axis.name);
  place.fail(error_code::unknown_axis, "operator '" + std::string{op.name} + "' has no axis '" + name + "'" +
                                           text::suggestion(name, names) + " (it has " +
                                           text::join(names, 40) + ")");
}

SWITCHYARD_FUNCTION void check_given_once(const json_place& object, const operator_description& op) {
  for (const former_name& renamed : op.formerly) {
    if (!object.has(std::string{renamed.former}.c_str())) continue;
    for (const auto& [other, unused] : object.object()) {
      if (other == renamed.former || current_name(op, other) != renamed.name) continue;
      object.fail("'" + std::string{renamed.former} + "' is a former name of '" + std::string{renamed.name} +
                  "', so '" + other + "' gives the same axis again; remove one of the two");
    }
  }
}

SWITCHYARD_FUNCTION const axis_value* find_in_type(const std::vector<axis_value>& type,
                                                   std::uint32_t axis) noexcept {
  for (const axis_value& wanted : type) {
    if (wanted.axis == axis) return &wanted;
  }
  return nullptr;
}

SWITCHYARD_FUNCTION std::vector<axis_value> read_type(const json_place& owner,
                                                      const operator_description& op) {
  std::vector<axis_value> type;
  if (!owner.has("type")) return type;
  const auto place = owner.at("type");
  check_given_once(place, op);
  for (const auto& [name, unused] : place.object()) {
    const std::uint32_t axis = read_axis_name(place, op, name);
    if (axis_at(op, axis).kind != axis_kind::type) {
      place.fail(error_code::unknown_axis,
                 "'" + name +
                     "' is a size axis; 'type' takes type axes only. Put a condition on it into 'requires'");
    }
    const auto entry = place.at(name.c_str());
    insert_in_type(type, {axis, read_axis_value(entry, axis_at(op, axis))});
  }
  return type;
}

SWITCHYARD_FUNCTION void insert_in_type(std::vector<axis_value>& type, axis_value value) {
  std::size_t at = type.size();
  while (at > 0 && type[at - 1].axis > value.axis) --at;
  type.insert(type.begin() + static_cast<std::ptrdiff_t>(at), value);
}

SWITCHYARD_FUNCTION std::vector<axis_value> read_served_type(const json_place& owner,
                                                             const operator_description& op) {
  std::vector<axis_value> type = read_type(owner, op);
  for (const implied_axis& implied : op.implied) {
    if (implied.like == implied_axis::no) continue;
    const std::uint32_t axis = find_axis(op, implied.axis);
    const axis_value* const like = find_in_type(type, find_axis(op, implied.like));
    if (like == nullptr || find_in_type(type, axis) != nullptr) continue;
    insert_in_type(type, {axis, like->value});
  }
  return type;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
