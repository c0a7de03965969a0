// Reads the expressions of manifests and tables: the names they may use, and parsing with the place in the
// file.
//
// Throws file_error invalid_expression.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/address.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_argument_axis.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/argument_axes.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Parses an integer expression that `place` holds.
[[nodiscard]] inline expression parse_at(const json_place& place, std::string_view text, const scope& names) {
  try {
    return expression::parse(text, names);
  } catch (const expression_error& problem) {
    place.fail(error_code::invalid_expression, problem.what());
  }
}

/// The same for an expression that choices depend on: an argument that it reads becomes a size axis.
[[nodiscard]] inline expression parse_with_arguments(const json_place& place, std::string_view text,
                                                     const operator_description& op, const scope& names) {
  expression out = parse_at(place, text, names);
  if (!out.reads_fields()) return out;
  if (op.arguments == nullptr) {
    place.fail(error_code::invalid_expression,
               "'" + std::string{text} +
                   "' reads an argument that no axis holds. Read the file through a "
                   "catalog, or give the operator a derived axis for it");
  }
  scope with_axes = names;
  out.for_each_field([&](std::uint32_t field) {
    const std::string_view name = op.fields[field].name;
    const std::uint32_t axis = find_argument(op, name);
    if (axis == argument_axes::no_room)
      place.fail(error_code::invalid_expression, describe_no_room(op, name, axis_kind::size));
    if (axis == argument_axes::no_axis) {
      place.fail(error_code::invalid_expression,
                 "'" + std::string{name} + "' is no integer; only integer arguments can become size axes");
    }
    with_axes.add(name, {symbol::source::axis, axis, 0, 0, false});
    for (const former_name& each : op.formerly) {
      if (each.name == name) with_axes.add(each.former, {symbol::source::axis, axis, 0, 0, false});
    }
  });
  return parse_at(place, text, with_axes);
}

/// Refuses an expression whose value is an address where `what` takes a number.
inline void check_number(const json_place& place, std::string_view what, const expression& value,
                         const operator_description& op) {
  if (!gives_address(value, op.fields)) return;
  place.fail(
      error_code::invalid_expression,
      text::shortened(place.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 80) +
          " is an address, '" + std::string{what} + "' takes a number");
}

/// Reads the expressions of one variant after the other. A text that has the same meaning for all of them is
/// parsed once: variants of a file repeat each other's conditions and parameters.
class expression_reader {
 public:
  explicit expression_reader(const operator_description& op)
      : plain_{make_scope(op)}, names_{plain_}, own_begin_{names_.size()} {}

  /// Goes on to a variant with this config. Whether what was read for the one before is still true: their
  /// configs have the same names.
  bool set_config(const std::vector<config_entry>& config) {
    const bool same_names =
        std::equal(config.begin(), config.end(), config_.begin(), config_.end(),
                   [](const config_entry& a, const config_entry& b) { return a.name == b.name; });
    names_.truncate(own_begin_);
    for (const config_entry& each : config) names_.add_constant(each.name, each.value);
    config_ = config;
    if (!same_names) parsed_.clear();  // a name may hide an axis
    return same_names;
  }

  [[nodiscard]] const scope& names() const noexcept { return names_; }
  /// The same without the config.
  [[nodiscard]] const scope& plain_names() const noexcept { return plain_; }

  /// Whether a text may read the config. It does not where this says that it does not.
  [[nodiscard]] bool may_read_config(std::string_view text) const noexcept {
    return std::any_of(config_.begin(), config_.end(), [text](const config_entry& each) {
      return text.find(each.name) != std::string_view::npos;
    });
  }

  /// The integer expression that a place has as its text.
  [[nodiscard]] expression parse(const json_place& place) {
    const std::string& text = place.string();
    const auto known = parsed_.find(text);
    if (known != parsed_.end()) return known->second;
    expression out = parse_at(place, text, names_);
    if (!may_read_config(text)) parsed_.emplace(text, out);
    return out;
  }

  /// An integer, or the text of an integer expression.
  [[nodiscard]] expression read(const json_place& place) {
    if (place.value().is_string()) return parse(place);
    if (!place.value().is_number_integer()) place.expected("an integer or an expression");
    return expression{place.integer()};
  }

  /// A number, or the text of a real expression.
  [[nodiscard]] expression read_real(const json_place& place) const {
    try {
      return expression::parse_real(place.value().is_string() ? place.string() : place.value().dump(),
                                    names_);
    } catch (const expression_error& problem) {
      place.fail(error_code::invalid_expression, problem.what());
    }
  }

 private:
  scope plain_;
  scope names_;
  std::size_t own_begin_;  // of the config's names
  std::vector<config_entry> config_;
  std::unordered_map<std::string, expression> parsed_;  // what does not read the config
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
