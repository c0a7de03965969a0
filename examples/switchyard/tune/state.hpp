// SPDX-License-Identifier: MIT
// What a kernel can change about the process that runs it, so that the kernels after it suffer: signal masks,
// limits, timers, the working folder. A kernel in a shared object may do all that; tune_worker.cpp compares
// before and after each request.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <utility>

namespace tool {

class process_state {
 public:
  [[nodiscard]] static process_state now();

  /// "RLIMIT_FSIZE was unlimited, now 0"; empty where nothing was changed.
  [[nodiscard]] std::string changed_since(const process_state& before) const;

  /// Whether there are threads that were not there before: what they do may show later.
  [[nodiscard]] bool has_more_threads_than(const process_state& before) const;

 private:
  std::map<std::string, std::string> values_;
  std::string folder_;                        ///< its path
  std::pair<dev_t, ino_t> place_{0, 0};       ///< of the folder, whatever it is called
  std::map<std::string, std::string> masks_;  ///< blocked signals, by thread
};

}  // namespace tool
