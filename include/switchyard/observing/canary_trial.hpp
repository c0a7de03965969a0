// SPDX-License-Identifier: MIT
// How much slower new tables choose than the others, for each operator: found by comparing both choices at
// problems that the new tables decide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/search.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Any thread may call.
class canary_trial {
 public:
  struct verdict {
    std::uint64_t comparisons = 0;
    double regret = 0;  ///< how much longer the new choices take over all calls compared, as a share
  };

  /// Adds a comparison. Beyond `at_once` comparisons the older ones fade, so that what changes is seen.
  verdict add(std::string_view op, double new_us, double old_us, std::uint32_t at_once) {
    const locked lock{mutex_};
    auto found =
        detail::find_if(all_.begin(), all_.end(), [op](const sums& known) { return known.op == op; });
    if (found == all_.end()) {
      all_.push_back({std::string{op}});
      found = all_.end() - 1;
    }
    const double kept = found->comparisons < at_once ? 1 : 1 - 1 / static_cast<double>(at_once + 1);
    found->new_us = kept * found->new_us + new_us;
    found->old_us = kept * found->old_us + old_us;
    ++found->comparisons;
    return {found->comparisons, found->old_us > 0 ? found->new_us / found->old_us - 1 : 0};
  }

  /// Forgets all.
  void begin_again() noexcept {
    const locked lock{mutex_};
    all_.clear();
  }

 private:
  struct sums {
    std::string op;
    std::uint64_t comparisons = 0;
    double new_us = 0;
    double old_us = 0;
  };

  mutex mutex_;
  std::vector<sums> all_;  // guarded by mutex_
};

}  // namespace v0
}  // namespace switchyard
