// SPDX-License-Identifier: MIT
// The journal of a tuning run, beside its table: one JSON object on each line, appended as soon as it is
// known. A run that was stopped at any moment resumes from it.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tune/measuring/statistics.hpp>

namespace tool {

/// A variant's time for a problem.
struct journal_time {
  switchyard::tune::timed time;
  bool final = false;  ///< of the last round of halving, with the wanted precision
};

using blobs_by_variant = std::map<std::string, std::string>;

/// A variant that must not be used: it crashed, hung, or was wrong.
struct bad_variant {
  std::string variant;
  std::string blob;                          ///< its fingerprint then; another build gets another chance
  std::vector<switchyard::axis_value> type;  ///< that its manifest serves
  std::string reason;
  std::string problem;  ///< at which it showed
};

class journal {
 public:
  /// Opens or creates the file. Times of other `settings` are ignored. Only one process may hold the file at
  /// a time. Throws switchyard::file_error.
  journal(std::string path, const switchyard::operator_description& op, std::string device,
          std::string settings);
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;
  ~journal();

  [[nodiscard]] std::optional<journal_time> time_of(const std::string& problem, const std::string& variant,
                                                    const std::string& blob) const;
  /// `also` is added to the line: clocks, temperature.
  void add_time(const std::string& problem, const std::string& variant, const std::string& blob,
                const journal_time& measured, const nlohmann::json& also);
  /// Forgets the times of a problem, because the device drifted.
  void drop(const std::string& problem);

  [[nodiscard]] std::vector<bad_variant> bad() const;
  [[nodiscard]] std::optional<bad_variant> find_bad(const std::string& variant, const std::string& blob,
                                                    const std::vector<switchyard::axis_value>& type) const;
  void add_bad(const bad_variant& bad);
  void forget_bad();

  /// Whether this run has written the problem's row.
  [[nodiscard]] bool done(const std::string& problem) const;
  /// The blobs of that row's variants.
  [[nodiscard]] blobs_by_variant done_with(const std::string& problem) const;
  void add_done(const std::string& problem, const blobs_by_variant& blobs, const nlohmann::json& also);

  /// The run is complete: its times are in the table, and the next run measures again.
  void finish();

  [[nodiscard]] std::size_t resumed() const noexcept { return resumed_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void read();
  void take(const nlohmann::json& line);
  void append(const nlohmann::json& line);
  [[nodiscard]] nlohmann::json header() const;

  std::string path_;
  const switchyard::operator_description& op_;
  std::string operator_name_;
  std::string device_;
  std::string settings_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, journal_time>> times_;  // by problem, then variant and blob
  std::map<std::string, bad_variant> bad_;                            // by variant, blob and type
  std::map<std::string, blobs_by_variant> done_;
  std::size_t resumed_ = 0;  ///< times that an unfinished run left
};

}  // namespace tool
