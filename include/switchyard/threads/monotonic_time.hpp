// SPDX-License-Identifier: MIT
// A monotonic clock, and the type of functions that stand in for it.
#pragma once

#include <cstdint>
#include <time.h>  // NOLINT(modernize-deprecated-headers,hicpp-deprecated-headers): <chrono> takes long to compile

namespace switchyard {
inline namespace v0 {

/// Gives nanoseconds since some moment.
using nanosecond_clock = std::int64_t (*)() noexcept;

[[nodiscard]] inline std::int64_t monotonic_nanoseconds() noexcept {
  ::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace v0
}  // namespace switchyard
