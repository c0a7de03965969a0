// SPDX-License-Identifier: MIT
// Successive halving: few samples of every variant, more of those that may still win (Jamieson and Talwalkar,
// "Non-stochastic best arm identification", 2016).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <switchyard/tune/measuring/statistics.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Which variants a round keeps for the next, as indices into `times` in their order: the faster half, but at
/// least `least`, and all whose interval reaches into the kept ones'.
[[nodiscard]] inline std::vector<std::size_t> survivors(const std::vector<timed>& times, std::size_t least) {
  std::vector<std::size_t> order(times.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&times](std::size_t a, std::size_t b) {
    return times[a].microseconds < times[b].microseconds;
  });
  const std::size_t keep = std::min(order.size(), std::max(least, (order.size() + 1) / 2));
  if (keep == 0) return {};
  const double reach = times[order[keep - 1]].high;
  std::size_t end = keep;
  // A crowd that cannot be told apart yet still shrinks, by a quarter at the least.
  const std::size_t most = std::max(keep, order.size() - order.size() / 4);
  while (end < most && times[order[end]].low <= reach) ++end;
  order.resize(end);
  std::sort(order.begin(), order.end());
  return order;
}

/// How many samples a winner must have: at least `least_samples`, and as many as any rival that is within a
/// tenth of its time. `for_each(visit)` visits all times.
template <class ForEach>
[[nodiscard]] std::size_t samples_wanted(const timed& winner, const ForEach& for_each) {
  std::size_t out = least_samples;
  for_each([&](const timed& each) {
    if (each.microseconds <= 1.1 * winner.microseconds) out = std::max(out, each.samples);
  });
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
