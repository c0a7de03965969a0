// SPDX-License-Identifier: MIT
// Whether the heap grows while the same things are replaced again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "allocation_counter.hpp"

namespace test {

/// Compares the smallest heap in the second quarter of a run with the smallest in the last. A leak raises the
/// smallest. What a thread holds back while it waits for a processor raises the mean alone.
class memory_growth {
 public:
  /// To be called after each replacement; `share` of the run, from 0 to 1, is done.
  void sample(double share) noexcept {
    if (share < 0.25) return;  // caches fill
    if (share < 0.5) early_ = std::min(early_, live_bytes());
    if (share >= 0.75) late_ = std::min(late_, live_bytes());
  }

  [[nodiscard]] std::int64_t early() const noexcept { return early_; }
  [[nodiscard]] std::int64_t late() const noexcept { return late_; }
  [[nodiscard]] bool is_sampled() const noexcept { return early_ != unset && late_ != unset; }
  [[nodiscard]] bool is_flat() const noexcept { return late_ < early_ + early_ / 4 + 500'000; }

 private:
  static constexpr std::int64_t unset = std::numeric_limits<std::int64_t>::max();
  std::int64_t early_ = unset;
  std::int64_t late_ = unset;
};

}  // namespace test
