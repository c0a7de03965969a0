// SPDX-License-Identifier: MIT
// The bodies of read_expression.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/address.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_expression.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION expression parse_at(const json_place& place, std::string_view text, const scope& names) {
  try {
    return expression::parse(text, names);
  } catch (const expression_error& problem) {
    place.fail(error_code::invalid_expression, problem.what());
  }
}

SWITCHYARD_FUNCTION void refuse_arguments(const json_place& place, std::string_view text,
                                          const operator_description& op, const expression& value) {
  value.for_each_field([&](std::uint32_t field) {
    place.fail(error_code::invalid_expression, describe_argument(op, text, op.fields[field].name));
  });
}

SWITCHYARD_FUNCTION void check_number(const json_place& place, std::string_view what, const expression& value,
                                      const operator_description& op) {
  if (!gives_address(value, op.fields)) return;
  place.fail(error_code::invalid_expression, text::shortened(dump_json(place.value()), 80) +
                                                 " is an address, '" + std::string{what} +
                                                 "' takes a number");
}

SWITCHYARD_FUNCTION bool expression_reader::set_config(const std::vector<config_entry>& config) {
  const bool same_names =
      std::equal(config.begin(), config.end(), config_.begin(), config_.end(),
                 [](const config_entry& a, const config_entry& b) { return a.name == b.name; });
  names_.truncate(own_begin_);
  for (const config_entry& entry : config) names_.add_constant(entry.name, entry.value);
  config_ = config;
  if (!same_names) parsed_.clear();  // a name may hide an axis
  return same_names;
}

SWITCHYARD_FUNCTION bool expression_reader::may_read_config(std::string_view text) const noexcept {
  return detail::any_of(config_.begin(), config_.end(), [text](const config_entry& entry) {
    return text.find(entry.name) != std::string_view::npos;
  });
}

SWITCHYARD_FUNCTION expression expression_reader::parse(const json_place& place) {
  const std::string& text = place.string();
  const auto known = parsed_.find(text);
  if (known != parsed_.end()) return known->second;
  expression out = parse_at(place, text, names_);
  if (!may_read_config(text)) parsed_.emplace(text, out);
  return out;
}

SWITCHYARD_FUNCTION expression expression_reader::read(const json_place& place) {
  if (place.value().is_string()) return parse(place);
  if (!place.value().is_number_integer()) place.expected("an integer or an expression");
  return expression{place.integer()};
}

SWITCHYARD_FUNCTION expression expression_reader::read_real(const json_place& place) const {
  try {
    return expression::parse_real(place.value().is_string() ? place.string() : dump_json(place.value()),
                                  names_);
  } catch (const expression_error& problem) {
    place.fail(error_code::invalid_expression, problem.what());
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
