// SPDX-License-Identifier: MIT
// The operators that this program knows by C++ type, and those that it knows from files alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <switchyard/operator.hpp>
#include <switchyard/tool/main.hpp>

namespace tool {

struct known_operator {
  const switchyard::operator_description* description;
  std::vector<switchyard::axis_default> defaults;  ///< the description's, and those of any operator
  bool is_learned = false;                         ///< from its manifests and tables: no program described it
  bool knows_arguments = true;                     ///< whether the types of its arguments are known
};

[[nodiscard]] const std::vector<known_operator>& known_operators();

/// Adds a program's own operators. An operator replaces one of the same name.
void add_operators(std::span<const switchyard::tool::own_operator> own);

/// Adds an operator that `describe` exported. Throws file_error.
void add_described(const std::string& path);

/// Derives an operator that nothing describes from the files of the search path. Null if there are none.
const known_operator* learn_installed(const std::vector<std::string>& roots, const std::string& name);

/// The operator with this name, if necessary derived from the search path. Throws usage_error.
[[nodiscard]] const known_operator& require_operator(std::string_view name,
                                                     const std::vector<std::string>& roots);

/// Null if no operator has this name.
[[nodiscard]] const known_operator* find_operator(std::string_view name);

/// The operator of a manifest or table, if necessary derived from the file.
[[nodiscard]] const known_operator& operator_of(const std::string& name, const nlohmann::json& file);

/// Throws usage_error with a suggestion if no operator has this name.
[[nodiscard]] const known_operator& require_operator(std::string_view name);

/// "operator 'x' is not known to this program; did you mean 'y'? It knows ..."
[[nodiscard]] std::string unknown_operator_text(std::string_view name);

/// An axis by name. Throws usage_error.
[[nodiscard]] std::uint32_t require_axis(const switchyard::operator_description& op, std::string_view name);

/// A value of an axis from text. Throws usage_error.
[[nodiscard]] std::int64_t require_value(const switchyard::axis_description& axis, std::string_view text);

/// Sets omitted axes to the operator's defaults, or flags and enumerations to their first value. Returns the
/// names of axes without a default; `assumed` (may be null) gets "axis=value" of the others.
[[nodiscard]] std::string fill_defaults(const known_operator& known, std::vector<std::int64_t>& values,
                                        const std::vector<bool>& given,
                                        std::vector<std::string>* assumed = nullptr);

/// "dtype=bf16 causal=true", or "any type".
[[nodiscard]] std::string format_type(const switchyard::operator_description& op,
                                      std::span<const switchyard::axis_value> type);

/// " 0=2 3=1": distinguishes types, by the numbers of their axes.
[[nodiscard]] std::string type_key(std::span<const switchyard::axis_value> type);

/// The parts of "axis=value". Throws usage_error.
struct axis_word {
  std::uint32_t axis;
  std::int64_t value;
};
[[nodiscard]] axis_word require_axis_word(const switchyard::operator_description& op, std::string_view word);

}  // namespace tool
