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

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
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

/// Reads the expressions of one variant after the other. A text that has the same meaning for all of them is
/// parsed once: variants of a file repeat each other's conditions and parameters.
class expression_reader {
 public:
  explicit expression_reader(const operator_description& op)
      : names_{make_scope(op)}, own_begin_{names_.size()} {}

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
  scope names_;
  std::size_t own_begin_;  // of the config's names
  std::vector<config_entry> config_;
  std::unordered_map<std::string, expression> parsed_;  // what does not read the config
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
