// Bindings that another one replaced while calls may still use them.
//
// One thread at a time, that of the source of bindings.
#pragma once

#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class displaced_bindings {
 public:
  displaced_bindings() = default;
  displaced_bindings(const displaced_bindings&) = delete;
  displaced_bindings& operator=(const displaced_bindings&) = delete;
  /// No call may be under way.
  ~displaced_bindings() {
    for (const binding* const each : kept_) delete each;  // NOLINT(cppcoreguidelines-owning-memory)
  }

  /// So that the next add() cannot fail.
  void make_room() { kept_.reserve(kept_.size() + 1); }

  /// Takes ownership.
  void add(binding* displaced);

  /// Frees those that no call uses any more.
  void free(reclaimer& readers);

 private:
  static constexpr int most_attempts = 8;

  std::vector<binding*> kept_;  // owned, until the reclaimer has them
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/replaced_states_impl.hpp>
#endif
