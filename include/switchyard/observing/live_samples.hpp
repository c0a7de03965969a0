// SPDX-License-Identifier: MIT
// Times of one variant at one problem: how many, the last, the least, and the median of the latest ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Times in microseconds.
struct live_time {
  std::uint64_t count = 0;
  double least_us = 0;
  double median_us = 0;  ///< of the latest 32
  double last_us = 0;
  double uncertainty = 0;  ///< half the width of the middle half of the latest ones, as a share of the median
};

/// Any thread may call.
class live_samples {
 public:
  void add(double microseconds) noexcept {
    const locked lock{mutex_};
    latest_[count_ % kept] = microseconds;
    least_ = count_ == 0 ? microseconds : std::min(least_, microseconds);
    last_ = microseconds;
    ++count_;
  }

  [[nodiscard]] live_time read() const noexcept {
    std::array<double, kept> sorted;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    live_time out;
    {
      const locked lock{mutex_};
      out = {count_, least_, 0, last_, 0};
      sorted = latest_;
    }
    const std::size_t used = out.count < kept ? static_cast<std::size_t>(out.count) : kept;
    if (used == 0) return out;
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(used));
    out.median_us = (sorted[(used - 1) / 2] + sorted[used / 2]) / 2;
    if (out.median_us > 0)
      out.uncertainty = (sorted[used - 1 - used / 4] - sorted[used / 4]) / 2 / out.median_us;
    return out;
  }

 private:
  static constexpr std::size_t kept = 32;

  mutable mutex mutex_;
  std::uint64_t count_ = 0;  // guarded by mutex_, like what follows
  double least_ = 0;
  double last_ = 0;
  std::array<double, kept> latest_{};
};

}  // namespace v0
}  // namespace switchyard
