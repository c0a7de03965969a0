// SPDX-License-Identifier: MIT
// Reads what manifests and tables say about an operator: its name, its axes, their values and `type`.
//
// Throws file_error with the place in the file. Owns nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Refuses a file that is for another operator.
void check_operator(const json_place& file, const operator_description& op);

/// The value of an axis in a file: an enumerator's name, true or false, or an integer.
[[nodiscard]] std::int64_t read_axis_value(const json_place& place, const axis_description& axis);

/// Index of the axis with this name, or of the one that the name adds: as a type axis a condition on
/// arguments. axis_at() describes either.
[[nodiscard]] std::uint32_t read_axis_name(const json_place& place, const operator_description& op,
                                           const std::string& name, axis_kind kind = axis_kind::type);

/// Refuses an object that gives one axis under two of its names: which of the values is meant?
void check_given_once(const json_place& object, const operator_description& op);

/// The value of an axis in a type that is sorted by axis; null: the type does not name it.
[[nodiscard]] const axis_value* find_in_type(const std::vector<axis_value>& type,
                                             std::uint32_t axis) noexcept;

/// Adds a value of an axis that a sorted type does not name.
void insert_in_type(std::vector<axis_value>& type, axis_value value);

/// The `type` of a denial or a pin: type axes and their values, sorted by axis.
[[nodiscard]] std::vector<axis_value> read_type(const json_place& owner, const operator_description& op);

/// The `type` of a variant or a group, with what it implies: kernels and rows of files that were written
/// before an axis was added hold for the value that all calls had then. What is `no` is left to the variant.
[[nodiscard]] std::vector<axis_value> read_served_type(const json_place& owner,
                                                       const operator_description& op);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_axes_impl.hpp>
#endif
