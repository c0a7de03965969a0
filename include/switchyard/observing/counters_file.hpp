// SPDX-License-Identifier: MIT
// Keeps a file of counters up to date, as Prometheus text for node_exporter's textfile collector.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/repeating_thread.hpp>

namespace switchyard {
inline namespace v0 {

/// Any thread may call.
class counters_file {
 public:
  /// `read` gives the counters; `warn` gets one message of a failure, until the file can be written again.
  counters_file(std::function<catalog_counters()> read, std::function<void(const std::string&)> warn);
  counters_file(const counters_file&) = delete;
  counters_file& operator=(const counters_file&) = delete;
  /// Writes the file once more.
  ~counters_file();

  /// Writes a file, now and at an interval, each time as a whole. Throws file_error unreadable_file where the
  /// first time fails.
  void start(const std::string& path, std::chrono::milliseconds interval);

 private:
  void write_again() noexcept;

  std::function<catalog_counters()> read_;
  std::function<void(const std::string&)> warn_;
  mutex mutex_;              // one writer at a time; guards what follows
  std::string path_;         // empty: none
  int process_ = 0;          // that writes it
  bool has_failed_ = false;  // the last time
  repeating_thread writer_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/counters_file_impl.hpp>
#endif
