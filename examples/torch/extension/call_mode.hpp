// SPDX-License-Identifier: MIT
// What a thread's calls do: launch, as a rule; else explain the choice, load what a launch will need, or read
// the numbers in tensors of indices.
#pragma once

#include <string>

#include <switchyard/choosing/explain.hpp>

namespace switchyard_torch {

enum class call_mode : int { launch = 0, explain = 1, prepare = 2, check = 3 };

/// The calling thread's call mode.
[[nodiscard]] call_mode& current_call_mode() noexcept;

/// Keeps an explanation, as JSON, until the calling thread asks for it.
void keep_explanation(const switchyard::explanation& why);

}  // namespace switchyard_torch
