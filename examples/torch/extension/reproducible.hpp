// SPDX-License-Identifier: MIT
// The reproducible classes that a thread's calls are limited to, by operator.
#pragma once

#include <string>
#include <string_view>

namespace switchyard_torch {

/// Whether the calling thread's calls of any operator are limited.
[[nodiscard]] bool is_reproducible_wanted() noexcept;

/// The class of an operator's calls on this thread; empty: any variant may serve. Valid until it is set
/// again.
[[nodiscard]] const std::string& wanted_class(std::string_view op);

}  // namespace switchyard_torch
