// SPDX-License-Identifier: MIT
// Facts that the system knows about this process.
#pragma once

#include <cstdint>

namespace llm {

/// Seconds since the process started, to a hundredth; 0 where the system does not tell.
[[nodiscard]] double process_seconds();

/// The peak host memory of the process in bytes, including the resident part of mapped files.
[[nodiscard]] std::int64_t peak_host_bytes();

}  // namespace llm
