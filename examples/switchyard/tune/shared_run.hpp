// SPDX-License-Identifier: MIT
// What all workers of a tuning run share: the problems, the table that they fill, and the journal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/measurement.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/tables/put_row.hpp>

#include "tune/journal.hpp"
#include "tune/measure.hpp"
#include "tune/problems.hpp"
#include "tune/progress.hpp"
#include "tune/run.hpp"

namespace tool {

/// What all workers of a run share.
class shared_run {
 public:
  shared_run(const tune_settings& wanted, const switchyard::operator_description& of,
             const switchyard::device_properties& measured_on, std::string table_file,
             const std::atomic<bool>& stop);

  const tune_settings& settings;
  const switchyard::operator_description& op;
  switchyard::device_properties device;
  std::string path;
  journal notes;
  const std::atomic<bool>& interrupted;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::vector<tuning_problem> problems;
  std::unique_ptr<progress> bar;

  /// Reads the existing table if it may be continued.
  void read_table(const session& session);

  [[nodiscard]] bool has_row(const tuning_problem& problem, switchyard::problem_view full) const;

  /// Whether it is known without a worker that a problem needs no measurement.
  [[nodiscard]] bool is_done(const tuning_problem& problem) const;

  [[nodiscard]] std::string key(const tuning_problem& problem) const;

  /// Counts a row of a table that is refreshed as measured, if it is: by an interrupted run that goes on.
  void remember(const tuning_problem& problem);

  /// Puts a problem's row into the table. `full`: all axes of each of its kinds; `variants`: those of all.
  void put(const tuning_problem& problem, const std::vector<std::vector<std::int64_t>>& full,
           const std::vector<serving>& variants, std::vector<switchyard::tune::row_entry> times,
           double uncertainty);

  /// Removes a variant that must not be used from every row.
  void put_bad(const bad_variant& bad);

  void add_clocks(const nlohmann::json& answer);
  void add_checked(const switchyard::tune::checked_extent& of);

  /// Brings the file up to date.
  void write();

  switchyard::table table;

 private:
  /// How a new table matches problems to rows: as the table does that it replaces, or the installed one that
  /// serves this device first.
  [[nodiscard]] switchyard::match_rule usual_match(const session& session) const;

  [[nodiscard]] static std::string settings_text(const tune_settings& of);

  /// Whether this run has measured every row that has a time of the group's i-th variant, with this blob.
  /// Until then its blob is the one of the older rows, which stay marked as stale.
  [[nodiscard]] bool all_measured(const switchyard::row_group& group, std::size_t variant,
                                  const std::string& blob) const;
  [[nodiscard]] std::string place_of(const switchyard::row_group& group, std::size_t row) const;

  /// Writes the table after every problem, or less often if a large table takes long to write.
  void write_soon();

  void write_now();

  void deny();

  [[nodiscard]] switchyard::measurement this_run() const;

  /// The runs that measured the rows that the table has.
  void read_earlier(const nlohmann::json& document);

  [[nodiscard]] std::size_t row_count() const;

  switchyard::measured_clocks clocks_;
  switchyard::measured_checks checks_{"f64", 0, 0, 0, 0};
  std::set<std::string> rows_;                        ///< of this run
  std::map<std::string, blobs_by_variant> measured_;  ///< the same by their places in the table
  std::vector<switchyard::measurement> earlier_;      ///< runs before, newest first
  bool changed_ = false;
  std::chrono::steady_clock::time_point written_{};
  std::chrono::steady_clock::duration write_time_{};
  mutable std::mutex mutex_;
};

}  // namespace tool
