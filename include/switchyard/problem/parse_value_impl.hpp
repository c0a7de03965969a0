// SPDX-License-Identifier: MIT
// The bodies of parse_value.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/problem/parse_value.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::optional<std::int64_t> parse_value(const axis_description& axis,
                                                            std::string_view text) {
  for (std::size_t i = 0; i < axis.value_names.size(); ++i) {
    if (axis.value_names[i] == text) return static_cast<std::int64_t>(i);
  }
  const bool negative = !text.empty() && text[0] == '-';
  std::int64_t value = 0;
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty()) return std::nullopt;
  for (const char c : digits) {
    const std::int64_t digit = c - '0';
    if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace v0
}  // namespace switchyard
