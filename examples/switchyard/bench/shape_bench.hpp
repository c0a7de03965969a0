// SPDX-License-Identifier: MIT
// One worker of `switchyard bench`, measuring one shape after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choosing/select.hpp>

#include "bench/result.hpp"
#include "bench/shapes.hpp"
#include "tune/measure.hpp"
#include "tune/process.hpp"
#include "tune/progress.hpp"

namespace tool {

struct bench_settings {
  measure_settings how;
  std::size_t candidates = 8;  ///< rivals of the chosen variant that are timed
  bool exhaustive = false;
  double threshold = 1.05;  ///< as a ratio
};

/// The state that the workers of a run share.
struct bench_run {
  const bench_settings& settings;
  const table_file& table;
  std::shared_ptr<const switchyard::selector> rules;
  switchyard::selector of_tables;
  std::unique_ptr<progress> bar;
};

class shape_bench {
 public:
  shape_bench(bench_run& run, worker_process& worker, std::size_t index);

  [[nodiscard]] bench_result measure(const bench_shape& shape);

 private:
  void show(const std::string& doing);
  void measure_all(const tuning_problem& problem);
  void fail();
  [[nodiscard]] std::vector<serving> rivals(std::uint32_t chosen);
  [[nodiscard]] race_outcome race(const std::vector<serving>& variants, bool exhaustive);
  [[nodiscard]] bool compare(const serving& chosen, const serving* rival);
  void judge();

  bench_run& run_;
  std::size_t index_;
  measuring_worker worker_;
  bench_result result_;
  std::vector<std::string> seen_;
};

}  // namespace tool
