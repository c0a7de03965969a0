// SPDX-License-Identifier: MIT
// The bodies of choice_limits.hpp.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void choice_limits::require_valid() const {
  if (workspace_bytes < 0) {
    throw call_error{
        error_code::invalid_argument,
        "limits: workspace_bytes is " + std::to_string(workspace_bytes) + ", but must not be negative"};
  }
  if (!(max_error > 0)) {
    throw call_error{error_code::invalid_argument,
                     "limits: max_error is " + text::number(max_error) + ", but must be more than 0"};
  }
}

}  // namespace v0
}  // namespace switchyard
