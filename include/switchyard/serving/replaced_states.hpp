// SPDX-License-Identifier: MIT
// Operator states that were replaced and that calls may still use.
//
// Used by one thread at a time, that of the state source.
#pragma once

#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class replaced_states {
 public:
  replaced_states() = default;
  replaced_states(const replaced_states&) = delete;
  replaced_states& operator=(const replaced_states&) = delete;
  /// No call may be under way.
  ~replaced_states() {
    for (const operator_state* const state : kept_) delete state;  // NOLINT(cppcoreguidelines-owning-memory)
  }

  /// So that the next add() cannot fail.
  void make_room() { kept_.reserve(kept_.size() + 1); }

  /// Takes ownership.
  void add(operator_state* displaced);

  /// Frees those that no call uses any more.
  void free(reclaimer& readers);

 private:
  static constexpr int max_attempts = 8;

  std::vector<operator_state*> kept_;  // owned, until the reclaimer has them
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/replaced_states_impl.hpp>
#endif
