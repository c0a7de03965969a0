// SPDX-License-Identifier: MIT
// The bodies of replaced_states.hpp.
#pragma once

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/replaced_states.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION void replaced_states::add(operator_state* displaced) {
  kept_.push_back(displaced);
}

SWITCHYARD_FUNCTION void replaced_states::free(reclaimer& readers) {
  std::erase_if(kept_, [&readers](operator_state* old) {
    return readers.retire_for_owner(old, [](void* state) { delete static_cast<operator_state*>(state); });
  });
  // Calls leave within microseconds. What a slow or preempted one still uses is freed by a later reload.
  for (int attempt = 0; attempt < max_attempts && readers.collect_owned() > 0; ++attempt) {
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
