// SPDX-License-Identifier: MIT
// What samples of a time say: the median, an interval that holds it, and how far the samples lie apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// The median of samples, with an interval for the true median.
struct timed {
  double microseconds = 0;  ///< median
  double low = 0;
  double high = 0;
  double spread = 0;  ///< (largest - smallest sample) / median
  std::size_t samples = 0;

  /// Half the interval's width, as a share of the median. One sample says nothing of how far it is off: 1.
  [[nodiscard]] double uncertainty() const noexcept {
    if (samples < 2) return 1;
    return microseconds > 0 ? (high - low) / 2 / microseconds : 0;
  }
};

/// Least samples whose range holds the median with 95 % confidence: 1 - 2^(1 - 6) is 97 %.
inline constexpr std::size_t least_samples = 6;

/// Median and its interval of at least 95 % confidence from order statistics, which asks nothing of how the
/// samples are distributed: the k-th smallest and k-th largest bound the median but for twice the chance of
/// fewer than k heads in n throws (Conover, Practical Nonparametric Statistics). With fewer than
/// `least_samples` the interval is the range.
[[nodiscard]] inline timed summarise(std::vector<double> samples) {
  timed out;
  out.samples = samples.size();
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  out.microseconds = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  out.spread = out.microseconds > 0 ? (samples.back() - samples.front()) / out.microseconds : 0;
  std::size_t rank = 0;  // from either end
  double tail = 0;       // chance of at most `rank` samples on one side
  double term = std::exp2(-static_cast<double>(n));
  for (std::size_t k = 0; k < n / 2; ++k) {
    tail += term;
    if (2 * tail > 0.05) break;
    rank = k;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  out.low = samples[rank];
  out.high = samples[n - 1 - rank];
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
