// SPDX-License-Identifier: MIT
// Ties: where a row's measurements cannot tell its fastest variants apart, it prefers the one that does best
// around it, so that the table's choices do not flip with the noise from one tuning to the next.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

namespace detail {

/// Where a row lies in a table's metric.
struct row_place {
  std::vector<double> at;           ///< along the axes and features that have a distance
  std::vector<std::int64_t> exact;  ///< along those that must be equal
};

[[nodiscard]] inline row_place place_of(const row_group& group, const match_rule& rule, std::size_t row) {
  row_place out;
  const auto add = [&out](const axis_rule& along, std::int64_t value) {
    switch (along.metric) {
      case axis_metric::log:
        out.at.push_back(std::log2(static_cast<double>(std::max<std::int64_t>(value, 1))) / along.unit);
        break;
      case axis_metric::linear:
        out.at.push_back(static_cast<double>(value) / along.unit);
        break;
      case axis_metric::exact:
        out.exact.push_back(value);
        break;
      case axis_metric::ignore:
        break;
    }
  };
  std::vector<std::int64_t> problem(std::max(rule.axes.size(), max_axes));
  for (const axis_value& wanted : group.type) problem[wanted.axis] = wanted.value;
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    const std::uint32_t axis = group.axes[i];
    problem[axis] = group.coordinates(row)[i];
    add(axis < rule.axes.size() ? rule.axes[axis] : axis_rule{}, problem[axis]);
  }
  for (const match_feature& feature : rule.features) {
    const integer_result value = feature.value.evaluate({problem, {}, {}, nullptr});
    add(feature.rule, value.why == fault::none ? value.value : 0);
  }
  return out;
}

/// Squared distance; negative where an exact axis keeps them apart.
[[nodiscard]] inline double squared_distance(const row_place& a, const row_place& b) {
  if (a.exact != b.exact) return -1;
  double out = 0;
  for (std::size_t i = 0; i < a.at.size(); ++i) out += (a.at[i] - b.at[i]) * (a.at[i] - b.at[i]);
  return out;
}

}  // namespace detail

/// The longest time that cannot be told from a row's shortest one: both may be off by the row's uncertainty.
[[nodiscard]] inline double tied_up_to(float shortest, double uncertainty) noexcept {
  return static_cast<double>(shortest) * (1 + 2 * uncertainty);
}

/// Settles the ties of every row: variants whose times cannot be told from the fastest are compared by their
/// mean slowdown, in logarithms, over the row itself and its `neighbours` nearest, a neighbour weighing 1 /
/// (1 + distance^2); one that a neighbour did not measure counts there as its slowest. Returns how many rows
/// prefer another than the fastest.
inline std::size_t settle_ties(table& of, std::size_t neighbours = 8) {
  std::size_t changed = 0;
  for (row_group& group : of.groups) {
    std::vector<measured_time> settled = group.times;
    std::vector<detail::row_place> places;
    for (std::size_t row = 0; row < group.row_count(); ++row)
      places.push_back(detail::place_of(group, of.match, row));
    const auto faster = [](const measured_time& a, const measured_time& b) {
      return a.microseconds < b.microseconds;
    };
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      const auto begin = settled.begin() + group.first_time[row];
      const auto end = settled.begin() + group.first_time[row + 1];
      std::stable_sort(begin, end, faster);
      if (end - begin < 2) continue;
      const double reach = tied_up_to(begin->microseconds, group.row_uncertainty(row));
      const auto tied = std::find_if(begin, end, [&](const measured_time& time) {
        return static_cast<double>(time.microseconds) > reach;
      });
      if (tied - begin < 2) continue;
      std::vector<std::pair<double, std::size_t>> near;
      for (std::size_t other = 0; other < group.row_count(); ++other) {
        const double squared = detail::squared_distance(places[row], places[other]);
        if (squared >= 0) near.emplace_back(squared, other);
      }
      const std::size_t count = std::min(near.size(), neighbours + 1);
      std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
      near.resize(count);
      auto best = begin;
      double best_score = 0;
      for (auto candidate = begin; candidate != tied; ++candidate) {
        double score = 0;
        for (const auto& [squared, other] : near) {
          const auto times = group.row_times(other);
          const auto [low, high] = std::minmax_element(times.begin(), times.end(), faster);
          const auto found = std::find_if(times.begin(), times.end(), [&](const measured_time& time) {
            return time.variant == candidate->variant;
          });
          const auto time = found == times.end() ? *high : *found;
          score +=
              std::log2(static_cast<double>(time.microseconds) / static_cast<double>(low->microseconds)) /
              (1 + squared);
        }
        if (candidate != begin && score >= best_score) continue;
        best = candidate;
        best_score = score;
      }
      if (best == begin) continue;
      std::rotate(begin, best, best + 1);
      ++changed;
    }
    group.times = std::move(settled);
  }
  return changed;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
