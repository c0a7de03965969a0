// SPDX-License-Identifier: MIT
// The SWITCHYARD_ environment variables, read when a catalog is opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>

namespace switchyard {
inline namespace v0 {

/// One operator's part of SWITCHYARD_FORCE: a variant's id, or "block_m=64,num_warps=4".
struct forced_choice {
  std::string operator_name;
  std::string wanted;
};

struct environment {
  debug_level debug = debug_level::silent;
  bool debug_json = false;
  std::string debug_file;           ///< empty: standard error; %p becomes the process id
  std::vector<std::string> path;    ///< roots searched for kernels/ and tables/
  std::vector<std::string> tables;  ///< overlay tables, files or folders
  std::vector<forced_choice> forced;
  std::string record;               ///< problems are appended to this file; %p as above
  std::string metrics;              ///< counters are written to this file, for Prometheus; %p as above
  std::string ranges;               ///< see open_ranges(); empty: none
  bool check = false;               ///< checked mode: see the guide
  std::vector<std::string> doubts;  ///< values that were taken for others; a catalog warns of them

  /// Reads the SWITCHYARD_ variables; set-uid programs ignore them. Throws call_error invalid_environment for
  /// an invalid SWITCHYARD_FORCE.
  [[nodiscard]] static environment read();

  /// The forced choice for an operator; empty if there is none.
  [[nodiscard]] std::string forced_for(std::string_view operator_name) const;

  /// Opens the log. If its file cannot be opened, or is a pipe that nobody reads, the log writes to standard
  /// error, or to its receiver.
  [[nodiscard]] std::shared_ptr<log> open_log(const log_receiver& receiver = {}) const;

  /// Opens the recorder; null if SWITCHYARD_RECORD is not set. Throws file_error unreadable_file.
  [[nodiscard]] std::shared_ptr<recorder> open_recorder() const;

  /// A path with the process id in place of each %p.
  [[nodiscard]] static std::string with_process(std::string path);

 private:
  [[nodiscard]] static int open_for_append(const std::string& name);

  [[nodiscard]] static std::vector<std::string> split(std::string_view text, char separator);

  [[nodiscard]] static bool is_no(std::string_view value) noexcept;
  [[nodiscard]] static bool is_yes(std::string_view value) noexcept;

  void read_debug(std::string_view value);

  void read_check(std::string_view value);

  void read_force(std::string_view value);
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/environment_impl.hpp>
#endif
