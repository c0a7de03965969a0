// SPDX-License-Identifier: MIT
// One tuning run of one operator: distributes problems over measuring processes, and writes every result to
// the journal and the table as it arrives.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/tune/measuring/shard.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "tune/measure.hpp"
#include "tune/problems.hpp"
#include "tune/process.hpp"

namespace tool {

struct tune_settings {
  std::string operator_name;
  std::vector<std::string> words;
  std::vector<std::string> recordings;
  std::string refresh;  ///< a table whose rows are measured again
  bool stale = false;   ///< only those with times of kernels that were rebuilt since
  std::string variant;  ///< only those with times of variants whose id has this text
  std::string output;
  std::string replaces;  ///< a folder of tables that the new ones are to replace: decides the order
  std::string worth;     ///< of the problems that are measured now; empty if nothing is replaced
  measure_settings how;
  std::string shard;  ///< "0/4", or empty: what the launcher says
  std::size_t most = 8;
  std::optional<double> budget_seconds;        ///< for this operator, from when its devices are ready
  std::optional<double> whole_budget_seconds;  ///< that no operator may exceed
  bool plan = false;                           ///< print what would be measured, and measure nothing
  bool exhaustive = false;
  bool again = false;
  bool deny = false;
  bool retry_bad = false;
};

/// The devices of a run. Their properties are known once a worker has told them.
struct tuned_devices {
  std::vector<device_place> places;
  std::optional<switchyard::device_properties> properties{};
};

/// Asks a worker of each device for its properties, unless they are known. Whether it was not interrupted.
/// Throws usage_error if they differ.
[[nodiscard]] bool learn_properties(const session& session, const known_operator& known,
                                    tuned_devices& devices, const std::atomic<bool>& interrupted);

/// "NVIDIA H200" as the name of its table: "nvidia-h200.json".
[[nodiscard]] std::string table_name_of(const switchyard::device_properties& device);

/// The table that a run writes.
[[nodiscard]] std::string table_path(const tune_settings& settings,
                                     const switchyard::operator_description& op,
                                     const switchyard::device_properties& device);

/// The result of a run.
struct tune_outcome {
  std::string table;
  std::string journal;
  std::size_t problems = 0;
  std::size_t measured = 0;  ///< rows of this run
  std::size_t before = 0;    ///< rows that were there already
  std::size_t resumed = 0;   ///< times that an unfinished run left
  std::size_t unsteady = 0;  ///< rows whose device drifted in every attempt
  std::vector<std::string> left_out;
  std::vector<std::string> left_out_kinds;  ///< of problems whose other kinds were measured
  std::vector<std::string> bad;
  std::size_t failures = 0;
  double seconds = 0;
  bool out_of_time = false;
  bool up_to_date = false;  ///< no row of the table was to be measured again
  bool interrupted = false;

  [[nodiscard]] nlohmann::ordered_json json() const;
  [[nodiscard]] std::string text() const;
};

/// The problems of an operator that the settings name, in the order of measurement. Throws usage_error and
/// switchyard::error.
[[nodiscard]] problem_list list_problems(const session& session, const tune_settings& settings,
                                         const known_operator& known);

/// Runs until all problems are measured, the budget is used up or `interrupted` becomes true; results so far
/// are kept. Throws usage_error and switchyard::error.
[[nodiscard]] tune_outcome tune(const session& session, const tune_settings& settings,
                                const known_operator& known, const problem_list& list, tuned_devices& devices,
                                const switchyard::tune::shard& part, const std::atomic<bool>& interrupted);

}  // namespace tool
