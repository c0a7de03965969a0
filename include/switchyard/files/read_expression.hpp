// Reads the expressions of manifests and tables: the names they may use, and parsing with the place in the
// file.
//
// Throws file_error invalid_expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Every name that an operator's expressions may use, without a variant's config.
[[nodiscard]] inline scope make_scope(const operator_description& op) {
  scope names;
  names.add("pi", {symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  names.add("log2e", {symbol::source::real_constant, 0, 0, 1.44269504088896340736, false});
  names.add("ln2", {symbol::source::real_constant, 0, 0, 0.69314718055994530942, false});
  for (const axis_description& axis : op.axes) {
    if (axis.value_names.data() == enumerator_names<bool>.data()) continue;
    for (std::size_t i = 0; i < axis.value_names.size(); ++i) {
      names.add_enumerator(axis.value_names[i], static_cast<std::int64_t>(i));
    }
  }
  names.add_constant("true", 1);
  names.add_constant("false", 0);
  for (std::size_t i = 0; i < attribute_names.size(); ++i) {
    names.add(attribute_names[i], {symbol::source::attribute, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (std::size_t i = 0; i < op.fields.size(); ++i) {
    names.add(op.fields[i].name, {symbol::source::field, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    names.add(op.axes[i].name, {symbol::source::axis, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (const former_name& each : op.formerly) names.add_former(each.former, each.name);
  return names;
}

/// Parses an integer expression that `place` holds.
[[nodiscard]] inline expression parse_at(const json_place& place, std::string_view text, const scope& names) {
  try {
    return expression::parse(text, names);
  } catch (const expression_error& problem) {
    place.fail(error_code::invalid_expression, problem.what());
  }
}

/// A number, or the text of a real expression.
[[nodiscard]] inline expression read_real_expression(const json_place& place, const scope& names) {
  try {
    return expression::parse_real(place.value().is_string() ? place.string() : place.value().dump(), names);
  } catch (const expression_error& problem) {
    place.fail(error_code::invalid_expression, problem.what());
  }
}

/// An integer, or the text of an integer expression.
[[nodiscard]] inline expression read_expression(const json_place& place, const scope& names) {
  if (place.value().is_string()) return parse_at(place, place.string(), names);
  if (!place.value().is_number_integer()) place.expected("an integer or an expression");
  return expression{place.integer()};
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
