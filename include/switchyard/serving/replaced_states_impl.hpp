// The bodies of displaced_bindings.hpp.
#pragma once

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/replaced_states.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION void displaced_bindings::add(binding* displaced) {
  kept_.push_back(displaced);
}

SWITCHYARD_FUNCTION void displaced_bindings::free(reclaimer& readers) {
  std::erase_if(kept_, [&readers](binding* old) {
    return readers.retire_for_owner(old, [](void* each) { delete static_cast<binding*>(each); });
  });
  // Calls leave within microseconds. What a slow or preempted one still uses is freed by a later reload.
  for (int attempt = 0; attempt < most_attempts && readers.collect_owned() > 0; ++attempt) {
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
