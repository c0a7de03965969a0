// SPDX-License-Identifier: MIT
// What the system knows of this process.
#pragma once

#include <cstdint>

namespace llm {

/// Seconds since the process started, to a hundredth; 0 where the system does not tell.
[[nodiscard]] double process_seconds();

/// The most host memory that the process has had, in bytes. Mapped files count as far as they are in memory.
[[nodiscard]] std::int64_t peak_host_bytes();

}  // namespace llm
