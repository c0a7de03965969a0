// SPDX-License-Identifier: MIT
// The observers of an operator's calls. Those that a catalog does not have are null.
#pragma once

#include <memory>

#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/observing/seal.hpp>

namespace switchyard {
inline namespace v0 {

struct observers {
  std::shared_ptr<seal> sealed = nullptr;
  std::shared_ptr<operator_tally> tally = nullptr;
  range_hooks ranges{};
  bool is_checked = false;  ///< checked mode
  std::shared_ptr<live_observer> live = nullptr;

  template <class What>
  void count(const What& what) const noexcept {
    if (tally != nullptr) tally->count(what);
  }
};

}  // namespace v0
}  // namespace switchyard
