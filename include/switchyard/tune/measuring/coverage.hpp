// SPDX-License-Identifier: MIT
// Orders problems for measuring under a time limit: those that are called often and lie far from measured
// ones come first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// A problem as a point: problems of different kinds say nothing about each other.
struct coverage_point {
  std::size_t kind = 0;
  std::vector<double> at;  ///< binary logarithms of the sizes: a factor of two is 1
  double weight = 1;       ///< how often it is called
};

/// The order, as indices. The next point is always the one with the largest weight * distance to the nearest
/// point before it: neighbours decide problems without rows, so that is where most would be lost. A distance
/// is at most `far`, also for the first point of a kind. With equal weights this is Gonzalez' farthest-point
/// traversal ("Clustering to minimize the maximum intercluster distance", 1985): a coarse grid that is
/// refined. Needs count^2 steps.
[[nodiscard]] inline std::vector<std::size_t> coverage_order(const std::vector<coverage_point>& points,
                                                             double far = 16) {
  std::vector<double> nearest(points.size(), far);
  std::vector<std::size_t> left(points.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  std::vector<std::size_t> out;
  while (!left.empty()) {
    std::size_t pick = 0;
    double best = -1;
    for (std::size_t i = 0; i < left.size(); ++i) {
      // A problem that is measured as another one of the same sizes still counts for a little.
      const double gain = points[left[i]].weight * (nearest[left[i]] + 1e-3);
      if (gain <= best) continue;
      pick = i;
      best = gain;
    }
    const std::size_t chosen = left[pick];
    out.push_back(chosen);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    for (const std::size_t candidate : left) {
      if (points[candidate].kind != points[chosen].kind) continue;
      double squared = 0;
      for (std::size_t i = 0; i < points[candidate].at.size(); ++i) {
        const double apart = points[candidate].at[i] - points[chosen].at[i];
        squared += apart * apart;
      }
      nearest[candidate] = std::min(nearest[candidate], std::sqrt(squared));
    }
  }
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
