// SPDX-License-Identifier: MIT
// How well the rows of a table are predicted from each other, for `report`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/problem/problem.hpp>

#include "tables/costs.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

/// How well rows are predicted from the others.
struct prediction_quality {
  std::vector<double> regrets;  ///< chosen over best, one a row that was tried
  std::vector<double> distances;
  std::size_t outside = 0;  ///< rows farther from all others than the envelope
  double worst = 1;
  std::string worst_at;

  void add(const prediction_quality& other) {
    regrets.insert(regrets.end(), other.regrets.begin(), other.regrets.end());
    distances.insert(distances.end(), other.distances.begin(), other.distances.end());
    outside += other.outside;
    if (other.worst > worst) {
      worst = other.worst;
      worst_at = other.worst_at;
    }
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double regret : regrets) sum += std::log(regret);
    return regrets.empty() ? 1 : std::exp(sum / static_cast<double>(regrets.size()));
  }
  [[nodiscard]] double quantile(double share) const {
    if (regrets.empty()) return 1;
    std::vector<double> sorted = regrets;
    std::sort(sorted.begin(), sorted.end());
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted[std::min(sorted.size(), std::max<std::size_t>(at, 1)) - 1];
  }
};

[[nodiscard]] inline double microseconds_of(const sy::measured_time& of) {
  return static_cast<double>(of.microseconds);
}

[[nodiscard]] inline table_file without_row(table_file from, std::size_t group, std::size_t row) {
  erase_row(from.content.groups[group], row);
  return from;
}

/// What the table would choose for each row without that row, among the variants that the row has times of:
/// others may not be admissible there.
[[nodiscard]] inline prediction_quality leave_one_out(const table_file& table, std::size_t group,
                                                      const std::shared_ptr<const sy::manifest>& variants) {
  constexpr std::size_t max_rows = 256;
  prediction_quality out;
  const sy::row_group& rows = table.content.groups[group];
  const std::size_t step = (rows.row_count() + max_rows - 1) / max_rows;
  for (std::size_t row = 0; row < rows.row_count() && rows.row_count() > 1; row += step) {
    const auto rules = rules_of(without_row(table, group, row), variants);
    std::vector<std::atomic<bool>> unusable(rules->candidates.size());
    for (std::size_t i = 0; i < unusable.size(); ++i) {
      unusable[i] = time_of(rows, row, rules->candidates[i].variant->id) == 0;
    }
    const sy::choice chosen =
        rules->select(problem_of_row(table.op(), rows, row), std::span<const std::atomic<bool>>{unusable});
    if (chosen.group == sy::no_index) continue;  // no other row has its variants
    const auto times = rows.row_times(row);
    const double time = time_of(rows, row, rules->candidates[chosen.variant].variant->id);
    const double regret = time / microseconds_of(times.front());
    out.regrets.push_back(regret);
    out.distances.push_back(static_cast<double>(chosen.distance));
    if (chosen.why == sy::reason::extrapolated) ++out.outside;
    if (regret > out.worst) {
      out.worst = regret;
      out.worst_at = format_row(table.op(), rows, row);
    }
  }
  return out;
}

}  // namespace tool
