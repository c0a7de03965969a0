// SPDX-License-Identifier: MIT
// One worker of a tuning run, measuring one problem after the other.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tune/measure.hpp"
#include "tune/process.hpp"
#include "tune/shared_run.hpp"

namespace tool {

/// One worker, measuring one problem after the other.
class problem_tuner {
 public:
  problem_tuner(shared_run& run, worker_process& worker, std::size_t index);

  enum class result { measured, unsteady, before };

  /// Measures a problem and puts its row into the table. `line` describes the result.
  [[nodiscard]] result measure(const tuning_problem& problem, std::string& line);

 private:
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
