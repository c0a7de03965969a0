// SPDX-License-Identifier: MIT
// The times of a row that stands for several kinds of calls, which no axis of the row tells apart: masks of
// several shapes, for example. A call of any of these kinds gets the row's choice, so the row prefers the
// variant that loses least over all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/files/put_row.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// The variants' times at calls of one kind, and how often they are called.
struct kind_times {
  std::vector<row_entry> times;
  double weight = 1;
};

/// The geometric mean of each variant's times over the kinds, by weight, in order of the variants' first
/// mention. A variant that lacks a kind is judged by its slowdown over the fastest at the kinds that it has.
/// Times and weights are positive.
[[nodiscard]] inline std::vector<row_entry> mean_times(std::span<const kind_times> kinds) {
  struct sum {
    double logarithms = 0;
    double weight = 0;
    void add(double value, double by) {
      logarithms += by * std::log(value);
      weight += by;
    }
    [[nodiscard]] double mean() const { return std::exp(logarithms / weight); }
  };
  sum fastest;
  std::map<std::string, sum> slowdowns;
  std::vector<std::string> order;
  for (const kind_times& kind : kinds) {
    if (kind.times.empty()) continue;
    const double best =
        std::min_element(kind.times.begin(), kind.times.end(), [](const row_entry& a, const row_entry& b) {
          return a.microseconds < b.microseconds;
        })->microseconds;
    fastest.add(best, kind.weight);
    for (const row_entry& time : kind.times) {
      const auto [found, is_new] = slowdowns.try_emplace(time.variant);
      if (is_new) order.push_back(time.variant);
      found->second.add(time.microseconds / best, kind.weight);
    }
  }
  std::vector<row_entry> out;
  for (std::string& variant : order) {
    const double slowdown = slowdowns.at(variant).mean();
    out.push_back({std::move(variant), fastest.mean() * slowdown});
  }
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
