// SPDX-License-Identifier: MIT
// Reads conditions on arguments, which add axes to an operator (problem/added_axes.hpp). A condition is known
// by its text, without spaces and with current names.
//
// Throws expression_error for a text that is no expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {

/// Most characters of a condition on arguments, without spaces.
inline constexpr std::size_t max_condition_text = 200;

namespace detail {

/// Every name that an operator's expressions may use, without a variant's config.
[[nodiscard]] scope make_scope(const operator_description& op);

/// A valid condition's text without spaces, with current names, and with values for the names of a config, so
/// that a manifest, a table and a recording spell the same condition alike.
[[nodiscard]] std::string normalised_condition(const operator_description& op, std::string_view text,
                                               const scope& names, const scope& without_config);

/// A condition from its text. One that reads an argument that is no integer, or has a number with a decimal
/// point, is computed in double, and has no %, << and >>.
[[nodiscard]] argument_condition parse_condition(const operator_description& op, std::string_view text,
                                                 const scope& names);

/// What is wrong where an operator has no room for a condition.
[[nodiscard]] std::string describe_no_room(const operator_description& op, std::string_view condition);

/// What is wrong with `asked`, which reads an argument although choices depend on axes alone.
[[nodiscard]] std::string describe_argument(const operator_description& op, std::string_view asked,
                                            std::string_view argument);

/// Whether a name, or a former one, is that of an argument.
[[nodiscard]] bool is_argument(const operator_description& op, std::string_view name) noexcept;

/// The axis of a condition on arguments that a file uses as a name. A new one is added. no_axis: the text is
/// no such condition, but a bare name, no expression, or an expression that reads no argument. no_room: as
/// added_axes::add().
[[nodiscard]] std::uint32_t find_condition(const operator_description& op, std::string_view name);

/// The arguments of an operator that no axis has the name of.
class argument_names {
 public:
  explicit argument_names(const operator_description& op);

  /// Whether one of them may be in the text of conditions, as JSON spells it.
  [[nodiscard]] bool may_be_in(std::string_view spelt) const;

 private:
  std::unordered_set<std::string_view> names_;
};

/// The same for many texts, which are often equal: answers are kept.
class argument_finder {
 public:
  /// The names outlive it.
  explicit argument_finder(const argument_names& names) : names_{names} {}

  /// The text outlives it.
  [[nodiscard]] bool in(std::string_view spelt);

 private:
  const argument_names& names_;
  std::unordered_map<std::string_view, std::uint32_t> known_;  // 1: it is
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_condition_impl.hpp>
#endif
