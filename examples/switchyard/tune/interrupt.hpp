// SPDX-License-Identifier: MIT
// Signals that end a run early, with everything kept.
#pragma once

#include <atomic>

namespace tool {

/// Makes SIGINT and SIGTERM end a run soon; a second signal ends it at once.
void catch_signals();
/// Becomes true at the first signal.
[[nodiscard]] const std::atomic<bool>& interrupted() noexcept;
/// The exit status that tells of the signal.
[[nodiscard]] int status_interrupted() noexcept;

}  // namespace tool
