// SPDX-License-Identifier: MIT
// The bodies of read_condition.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/expression/scanner.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION scope make_scope(const operator_description& op) {
  scope names;
  names.add("pi", {symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  names.add("log2e", {symbol::source::real_constant, 0, 0, 1.44269504088896340736, false});
  names.add("ln2", {symbol::source::real_constant, 0, 0, 0.69314718055994530942, false});
  for (const axis_description& axis : op.axes.first(op.own_axes())) {
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
  for (std::size_t i = 0; i < op.own_axes(); ++i) {
    names.add(op.axes[i].name, {symbol::source::axis, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (const former_name& renamed : op.formerly) names.add_former(renamed.former, renamed.name);
  return names;
}

SWITCHYARD_FUNCTION std::string normalised_condition(const operator_description& op, std::string_view text,
                                                     const scope& names, const scope& without_config) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!expression_scanner::is_letter(text[at])) {
      // Digits go as they are, also before a letter, which no valid text has behind them.
      if (text[at] != ' ' && text[at] != '\t') out += text[at];
      ++at;
      continue;
    }
    expression_scanner word_of{text.substr(at)};
    const std::string_view word = word_of.word();
    at += word.size();
    const symbol* const meaning = names.find(word);
    const symbol* const plain = without_config.find(word);
    const bool is_config =
        meaning != nullptr && meaning->from == symbol::source::constant &&
        (plain == nullptr || plain->from != meaning->from || plain->value != meaning->value);
    if (!is_config) {
      out += current_name(op, word);
    } else if (meaning->value < 0) {
      out += "(" + std::to_string(meaning->value) + ")";
    } else {
      out += std::to_string(meaning->value);
    }
  }
  // A bare name would read like an axis.
  const bool is_name = out.find_first_of("=<>!+-*/%?()&|") == std::string::npos;
  return is_name ? out + "!=0" : out;
}

SWITCHYARD_FUNCTION argument_condition parse_condition(const operator_description& op, std::string_view text,
                                                       const scope& names) {
  argument_condition out;
  out.is_real = text.find('.') != std::string_view::npos;
  if (!out.is_real) {
    out.value = expression::parse(text, names);
    out.value.for_each_field([&](std::uint32_t field) {
      const value_kind kind = op.fields[field].kind;
      out.is_real = out.is_real || kind == value_kind::f32 || kind == value_kind::f64;
    });
  }
  if (out.is_real) out.value = expression::parse_real(text, names);
  return out;
}

SWITCHYARD_FUNCTION std::string describe_no_room(const operator_description& op, std::string_view condition) {
  return "'" + text::shortened(condition, 60) +
         "' would be one condition on arguments too many for operator '" + std::string{op.name} +
         "': its files together may name " + std::to_string(max_added_axes) +
         ". Name fewer, or give the operator an axis; after files were replaced, a new process forgets those "
         "of "
         "the old ones";
}

SWITCHYARD_FUNCTION std::string describe_argument(const operator_description& op, std::string_view asked,
                                                  std::string_view argument) {
  const std::string name{argument};
  return "'" + text::shortened(asked, 60) + "' goes by the argument '" + name +
         "', which no axis of operator '" + std::string{op.name} +
         "' holds. Tell calls apart by a condition in 'type' or 'requires', such as \"" + name +
         " <= 1024\", or give the operator an axis for it";
}

SWITCHYARD_FUNCTION bool is_argument(const operator_description& op, std::string_view name) noexcept {
  name = current_name(op, name);
  return detail::any_of(op.fields.begin(), op.fields.end(),
                        [name](const field_description& field) { return field.name == name; });
}

SWITCHYARD_FUNCTION std::uint32_t find_condition(const operator_description& op, std::string_view name) {
  constexpr std::uint32_t none = added_axes::no_axis;
  if (op.added == nullptr || name.find_first_of("=<>!") == std::string_view::npos) return none;
  try {
    const scope names = make_scope(op);
    const std::string text = normalised_condition(op, name, names, names);
    if (const std::uint32_t known = op.added->find(text); known != none) return known;
    argument_condition condition = parse_condition(op, text, names);
    if (!condition.value.reads_fields() || text.size() > max_condition_text) return none;
    return op.added->add(text, std::move(condition));
  } catch (const expression_error&) {
    return none;
  }
}

SWITCHYARD_FUNCTION argument_names::argument_names(const operator_description& op) {
  for (const field_description& field : op.fields) {
    if (find_axis(op, field.name) >= op.own_axes()) names_.insert(field.name);
  }
  for (const former_name& renamed : op.formerly) {
    if (names_.contains(renamed.name)) names_.insert(renamed.former);
  }
}

SWITCHYARD_FUNCTION bool argument_names::may_be_in(std::string_view spelt) const {
  if (spelt.find('\\') != std::string_view::npos) return true;  // an escape may spell one
  for (std::size_t at = 0; at < spelt.size();) {
    if (!expression_scanner::is_letter(spelt[at])) {
      ++at;
      continue;
    }
    expression_scanner from{spelt.substr(at)};
    const std::string_view word = from.word();
    if (names_.contains(word)) return true;
    at += word.size();
  }
  return false;
}

SWITCHYARD_FUNCTION bool argument_finder::in(std::string_view spelt) {
  const auto [found, is_new] = known_.try_emplace(spelt);
  if (is_new) found->second = names_.may_be_in(spelt) ? 1 : 0;
  return found->second;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
