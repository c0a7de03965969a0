// SPDX-License-Identifier: MIT
// One worker of a tuning run, measuring one problem after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/tables/put_row.hpp>

#include "tune/measure.hpp"
#include "tune/process.hpp"
#include "tune/shared_run.hpp"

namespace tool {

/// One worker, measuring one problem after the other.
class problem_tuner {
 public:
  problem_tuner(shared_run& run, worker_process& worker, std::size_t index);

  enum class result { measured, unsteady, before };

  /// Measures a problem and puts its row into the table. `line` describes the result. Kinds of its calls that
  /// could not be measured, while others could, are added to `left_out_kinds`.
  [[nodiscard]] result measure(const tuning_problem& problem, std::string& line,
                               std::vector<std::string>& left_out_kinds);

 private:
  /// What was measured of one kind of calls.
  struct timed_kind {
    const tuning_problem* problem = nullptr;
    std::vector<std::int64_t> full;  ///< all axes
    std::vector<serving> serves;
    std::size_t offered = 0;                  ///< variants that are not known to be bad
    std::vector<raced_variant> times;         ///< of variants that were checked again, fastest first
    std::vector<raced_variant> slower_times;  ///< of those that are too slow to be
    bool steady = false;
    double drift = 0;
    double uncertainty = 0;
    switchyard::tune::checked_extent checks;
  };

  /// Measures the problem that the worker holds. Throws left_out.
  [[nodiscard]] timed_kind time_kind();

  /// The row's times: of several kinds, the means.
  [[nodiscard]] std::vector<switchyard::tune::row_entry> entries_of(const std::vector<timed_kind>& kinds,
                                                                    const std::vector<double>& weights) const;

  /// Checks the variants of a row again at those kinds where they were too slow to be. Whether all are right;
  /// the others are no longer among the kinds' times.
  [[nodiscard]] bool confirm_at_all(std::vector<timed_kind>& kinds,
                                    const std::vector<switchyard::tune::row_entry>& entries);

  /// The times of the problem that an interrupted run noted, if they are complete.
  [[nodiscard]] race_outcome resumed(const std::vector<serving>& variants) const;

  /// Times all variants in turns and notes the times. Removes those that failed from `variants`.
  [[nodiscard]] race_outcome race(std::vector<serving>& variants);

  /// The fastest variants, as many as a row keeps, each checked again: none wins that was correct only at
  /// first.
  [[nodiscard]] std::vector<raced_variant> confirmed(const std::vector<raced_variant>& times);

  void condemn(const serving& variant, const std::string& reason);

  shared_run& run_;
  std::size_t index_;
  measuring_worker worker_;
  std::string text_;
  std::string full_text_;
};

}  // namespace tool
