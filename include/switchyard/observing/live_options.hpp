// SPDX-License-Identifier: MIT
// How much of the real calls is measured.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchyard {
inline namespace v0 {

struct live_options {
  /// A share that costs less than 0.5 % of device time: see tests/benchmarks.
  static constexpr std::uint32_t usual_share = 1024;

  std::uint32_t one_in = 0;     ///< one call in so many of each problem is timed; 0: none is
  std::size_t events = 64;      ///< calls at most that are being timed, for each operator and device
  std::size_t problems = 4096;  ///< problems at most whose times are kept
};

}  // namespace v0
}  // namespace switchyard
