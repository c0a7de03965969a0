// The operators that this program knows by C++ type. To add your own, add a line to operators.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/operator.hpp>

namespace tool {

/// What an axis is when a command line does not say: a value as text, or "=axis" for that of another axis.
struct axis_default {
  std::string_view axis;
  std::string_view value;
};

struct known_operator {
  const switchyard::operator_description* description;
  std::vector<axis_default> defaults;
};

[[nodiscard]] const std::vector<known_operator>& known_operators();

/// Null for a name that is none.
[[nodiscard]] const known_operator* find_operator(std::string_view name);

/// Throws usage_error, with a suggestion, for a name that is none.
[[nodiscard]] const known_operator& require_operator(std::string_view name);

/// "operator 'x' is not known to this program; did you mean 'y'? It knows ..."
[[nodiscard]] std::string unknown_operator_text(std::string_view name);

/// An axis by name. Throws usage_error.
[[nodiscard]] std::uint32_t require_axis(const switchyard::operator_description& op, std::string_view name);

/// A value of an axis from text. Throws usage_error.
[[nodiscard]] std::int64_t require_value(const switchyard::axis_description& axis, std::string_view text);

/// "axis=value" taken apart. Throws usage_error.
struct axis_word {
  std::uint32_t axis;
  std::int64_t value;
};
[[nodiscard]] axis_word require_axis_word(const switchyard::operator_description& op, std::string_view word);

}  // namespace tool
