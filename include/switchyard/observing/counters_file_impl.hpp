// SPDX-License-Identifier: MIT
// The bodies of counters_file.hpp.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <unistd.h>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/counters_file.hpp>
#include <switchyard/observing/prometheus.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD counters_file::counters_file(std::function<catalog_counters()> read,
                                             std::function<void(const std::string&)> warn)
    : read_{std::move(read)}, warn_{std::move(warn)} {}

SWITCHYARD_COLD counters_file::~counters_file() {
  writer_.stop();
  write_again();
}

SWITCHYARD_COLD void counters_file::start(const std::string& path, std::chrono::milliseconds interval) {
  write_file(path, to_prometheus(read_()));
  {
    const locked lock{mutex_};
    path_ = path;
    process_ = ::getpid();
    has_failed_ = false;
  }
  writer_.start(interval, [this] { write_again(); });
}

SWITCHYARD_COLD void counters_file::write_again() noexcept {
  try {
    const locked lock{mutex_};
    if (path_.empty() || process_ != ::getpid()) return;  // a child of fork() has its own
    try {
      write_file(path_, to_prometheus(read_()));
      has_failed_ = false;
    } catch (const file_error& problem) {
      if (!std::exchange(has_failed_, true)) warn_("writing counters: " + std::string{problem.what()});
    }
  } catch (const std::exception&) {  // no memory: the next time
  }
}

}  // namespace v0
}  // namespace switchyard
