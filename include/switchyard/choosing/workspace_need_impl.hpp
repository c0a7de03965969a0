// SPDX-License-Identifier: MIT
// The bodies of workspace_need.hpp.
#pragma once

#include <cstdint>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/workspace_need.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/launch_limits.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::int64_t workspace_need(const variant& of, const evaluation& values) noexcept {
  std::int64_t total = 0;
  for (const named_expression& buffer : of.workspace) {
    const integer_result bytes = buffer.value.evaluate(values);
    if (bytes.why != fault::none || bytes.value < 0 || bytes.value > max_buffer_bytes) return -1;
    total += static_cast<std::int64_t>(padded_buffer(bytes.value));
  }
  return total;
}

}  // namespace v0
}  // namespace switchyard
