// SPDX-License-Identifier: MIT
// What a catalog keeps of a dispatcher on one device: which version of the files its operator state was made
// from and, while a newer version cannot serve, when that is tried again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/serving/awaited_blobs.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/state_source.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>

namespace switchyard {
inline namespace v0 {

struct state_use {
  /// What replacing a state takes of the catalog.
  struct replacer {
    nanosecond_clock clock;
    generation_counter& generation;  ///< counts replacements, also one that throws
    operator_tally& tally;
    log& messages;
    std::function<std::unique_ptr<operator_state>()> make_state;
  };

  state_use(const operator_description& op_, device target_, state_user& user_)
      : op{&op_}, target{std::move(target_)}, user{&user_} {}

  /// Gives the user a state of the contents `newer`, where they are newer than its own or where a blob came
  /// that a variant waits for. Contents that could not serve are tried again after 1 s, then 2 s, doubling to
  /// 64 s. `now` is by the clock; INT64_MAX tries at once. The caller holds the mutex, and the user is
  /// attached.
  void replace(std::uint64_t newer, std::int64_t now, const replacer& by, reload_report& report);

  /// Calls `visit` with the user, unless it is detached, and holds the mutex meanwhile.
  template <class Visitor>
  void visit_user(const Visitor& visit) {
    const std::scoped_lock lock{mutex};
    if (user != nullptr) visit(*user);
  }

  const operator_description* op;
  device target;
  switchyard::mutex mutex;    // held while the user is given an operator state
  state_user* user;           // null once it is detached; guarded by mutex
  std::uint64_t version = 0;  // of the contents that its operator state was made from; guarded by mutex

 private:
  /// Whether a blob that was missing or cut off is there now, so that a variant can serve which could not: in
  /// the operator state in use, or in one that was refused.
  [[nodiscard]] bool have_blobs_come(reload_report& report);

  // While newer contents cannot be taken, guarded by mutex:
  std::uint64_t refused_ = 0;        // the version that was warned of
  std::int64_t try_at_ = INT64_MIN;  // by the clock
  std::chrono::seconds wait_{1};
  std::unique_ptr<operator_state> untaken_;  // of the refused version, where it lacks a blob; else null
  awaited_blobs blobs_;                      // that variants wait for
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/state_use_impl.hpp>
#endif
