// SPDX-License-Identifier: MIT
// The result of measuring a shape of a table again, and the summary of all shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/tune/measuring/bench.hpp>
#include <switchyard/tune/tables/put_row.hpp>

#include "tables/table_files.hpp"

namespace tool {

/// A ratio of two times, with the interval that follows from theirs.
struct time_ratio {
  double value = 1;
  double low = 1;
  double high = 1;
};

/// The outcomes of a shape, worst first: the order of the output. Unclear: the ratio exceeds the threshold,
/// but not by more than the uncertainty of the measurements.
enum class bench_outcome : std::uint8_t { failed, behind, left_out, unclear, within };
constexpr std::array<std::string_view, 5> bench_outcome_names{"failed", "behind", "left out", "unclear",
                                                              "within"};

struct bench_result {
  bench_outcome kind = bench_outcome::within;
  switchyard::reason reason = switchyard::reason::none;  ///< of the choice
  bool between = false;
  bool unsteady = false;  ///< the device drifted in every attempt
  bool drifted = false;   ///< the row's time is off by more than the threshold, beyond the uncertainty
  bool holds = false;     ///< the row's time is within the threshold; neither: the measurements cannot tell
  std::string text;       ///< "dtype=f32 rows=64"
  std::string why;        ///< of one that failed or was left out
  std::string chosen;
  std::string best;
  switchyard::tune::timed chosen_time;
  switchyard::tune::timed best_time;
  time_ratio behind;                ///< chosen over best
  double recorded = 0;              ///< the row's time of the chosen variant; 0: it has none
  std::optional<time_ratio> drift;  ///< measured over recorded
  std::size_t measured = 0;         ///< variants
  std::size_t serving = 0;          ///< that may serve it
  std::vector<std::string> failures;
  // For settling ties as the tuner does.
  std::vector<std::int64_t> full;
  std::vector<switchyard::axis_value> type;
  std::vector<switchyard::tune::row_entry> times;
  std::optional<std::string> settled;  ///< what the tuner would put first, where that is not the chosen one

  [[nodiscard]] bool has_ratio() const noexcept {
    return kind == bench_outcome::within || kind == bench_outcome::unclear || kind == bench_outcome::behind;
  }
};

/// Finds the variant that the tuner would put first in each row today. Ties are settled by neighbouring rows,
/// so that a change caused by noise alone does not count.
void settle(const table_file& of, std::vector<bench_result>& results);

struct bench_summary {
  std::size_t count[bench_outcome_names.size()]{};  // NOLINT(modernize-avoid-c-arrays): by outcome
  std::size_t compared = 0;
  double mean = 1;
  double p99 = 1;
  const bench_result* worst = nullptr;  ///< null where every choice won
  std::size_t flips = 0;                ///< another variant was faster
  std::size_t clear_flips = 0;          ///< beyond the uncertainty
  std::size_t settled_flips = 0;        ///< the tuner would put another first
  std::size_t with_record = 0;
  std::size_t drifted = 0;
  std::size_t unsteady = 0;
  std::size_t rows_left_out = 0;

  [[nodiscard]] std::size_t of(bench_outcome kind) const { return count[static_cast<std::size_t>(kind)]; }
};

[[nodiscard]] bench_summary summarise(const std::vector<bench_result>& results);

/// One line of text on one shape.
[[nodiscard]] std::string line_of(const bench_result& result);

/// Prints to standard output; `threshold` is a ratio.
void print_results(const table_file& table, double threshold, const std::vector<bench_result>& results);
void print_results_as_json(const table_file& table, double threshold,
                           const std::vector<bench_result>& results, int status);

}  // namespace tool
