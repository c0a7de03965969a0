// SPDX-License-Identifier: MIT
// The state of a process that a kernel in a shared object can change to the harm of later kernels: signal
// masks, limits, timers, the working folder. tune/worker.cpp compares it before and after each request.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <utility>

namespace tool {

class process_state {
 public:
  [[nodiscard]] static process_state now();

  /// "RLIMIT_FSIZE was unlimited, now 0"; empty if nothing changed.
  [[nodiscard]] std::string changed_since(const process_state& before) const;

  /// Whether there are new threads, whose effects may show later.
  [[nodiscard]] bool has_more_threads_than(const process_state& before) const;

 private:
  std::map<std::string, std::string> values_;
  std::string folder_;                        ///< its path
  std::pair<dev_t, ino_t> place_{0, 0};       ///< of the folder, whatever it is called
  std::map<std::string, std::string> masks_;  ///< blocked signals, by thread
};

}  // namespace tool
