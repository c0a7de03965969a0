// SPDX-License-Identifier: MIT
// Which of a caller's limits a variant exceeds for every problem.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// The message for a variant that states too large an error, or not the class that is asked for; empty if
/// neither is so.
[[nodiscard]] std::string find_exceeded(const choice_limits& limits, const variant& of);

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/find_exceeded_impl.hpp>
#endif
