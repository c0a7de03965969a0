// SPDX-License-Identifier: MIT
// Axis values from text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

/// The value that a name of an enumerator, or a decimal number, stands for.
[[nodiscard]] std::optional<std::int64_t> parse_value(const axis_description& axis, std::string_view text);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/problem/parse_value_impl.hpp>
#endif
