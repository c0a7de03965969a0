// SPDX-License-Identifier: MIT
// How much workspace a variant takes for a problem.
#pragma once

#include <cstdint>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {

/// Bytes of a variant's buffers, each aligned as a call has it; negative where they cannot be computed.
[[nodiscard]] std::int64_t workspace_need(const variant& of, const evaluation& values) noexcept;

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/workspace_need_impl.hpp>
#endif
