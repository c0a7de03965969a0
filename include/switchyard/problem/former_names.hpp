// SPDX-License-Identifier: MIT
// Translates names in files that were written before an axis or an argument was renamed.
#pragma once

#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

/// An expression or a problem's text with former names replaced, so that texts of one meaning compare equal.
[[nodiscard]] std::string with_current_names(const operator_description& op, std::string_view text);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/problem/former_names_impl.hpp>
#endif
