// SPDX-License-Identifier: MIT
// The bodies of state_use.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/state_use.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void state_use::replace(std::uint64_t newer, std::int64_t now, const replacer& by,
                                        reload_report& report) {
  // What was not tried yet, and a blob that came, wait for nothing.
  const std::size_t known = report.changed.size();
  const bool is_newer = version < newer;
  const bool can_serve_more = have_blobs_come(report);
  const bool is_new = report.changed.size() > known || (is_newer && newer != refused_);
  if (!is_new && !((is_newer || can_serve_more) && now >= try_at_)) return;
  // After each one, also when it throws: who reads the counter, captures, and finds it unchanged has
  // captured what serves.
  struct counted {
    generation_counter& generation;
    bool is_unchanged = false;
    ~counted() {
      if (!is_unchanged) generation.fetch_add(1, std::memory_order_release);
    }
  } counts{by.generation};
  untaken_ = nullptr;
  std::unique_ptr<operator_state> fresh = by.make_state();
  const bool is_taken = user->adopt(std::move(fresh));
  by.tally.count(is_taken ? &operator_tally::replacements : &operator_tally::refused_replacements);
  if (is_taken) {
    version = newer;
    wait_ = std::chrono::seconds{1};
    return;
  }
  counts.is_unchanged = true;
  if (!fresh->without_blob().empty()) untaken_ = std::move(fresh);
  try_at_ = by.clock() + std::chrono::nanoseconds{wait_}.count();
  wait_ = std::min(2 * wait_, std::chrono::seconds{64});
  report.refused.push_back(std::string{op->name} +
                           ": the new files serve none of the calls that the previous ones serve, or need "
                           "kernels that cannot be loaded; the previous ones stay in use");
  if (std::exchange(refused_, newer) != newer) by.messages.warn(report.refused.back());
}

SWITCHYARD_COLD bool state_use::have_blobs_come(reload_report& report) {
  std::vector<const variant*> waiting;
  for (const operator_state* const of :
       {user->in_use(), static_cast<const operator_state*>(untaken_.get())}) {
    if (of == nullptr) continue;
    const std::vector<const variant*> found = of->without_blob();
    for (const variant* const lacking : found) waiting.push_back(lacking);
  }
  return blobs_.look(waiting, report.changed);
}

}  // namespace v0
}  // namespace switchyard
