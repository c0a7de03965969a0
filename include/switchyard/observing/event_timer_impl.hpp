// SPDX-License-Identifier: MIT
// The bodies of event_timer.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/event_timer.hpp>
#include <switchyard/observing/live_samples.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD event_timer::event_timer(const live_options& options, std::shared_ptr<device_driver> driver,
                                         std::shared_ptr<live_observer> owner,
                                         std::shared_ptr<operator_tally> tally,
                                         std::function<void(const std::string&)> warn)
    : live_timer{options.one_in},
      limit_{options.events},
      driver_{std::move(driver)},
      owner_{std::move(owner)},
      tally_{std::move(tally)},
      warn_{std::move(warn)} {}

SWITCHYARD_COLD event_timer::~event_timer() {
  read(recorded_.size());
  for (const pair& events : pairs_) {
    driver_->destroy_event(events.from);
    driver_->destroy_event(events.to);
  }
}

SWITCHYARD_FUNCTION void* event_timer::begin(stream on) noexcept {
  if (driver_->capturing(on)) return nullptr;
  pair* mine = nullptr;
  if (mutex_.try_lock()) {
    read(read_at_once);
    mine = take();
    mutex_.unlock();
  }
  if (mine == nullptr) {
    tally_->count(&operator_tally::live_untimed);
    return nullptr;
  }
  if (driver_->record(mine->from, on) == 0) return mine;
  end(mine, on, nullptr);
  return nullptr;
}

SWITCHYARD_FUNCTION void event_timer::end(void* begun, stream on, live_samples* samples) noexcept {
  auto* const mine = static_cast<pair*>(begun);
  // Should the stream have begun to be captured meanwhile, the event would belong to the graph.
  const bool is_recorded =
      samples != nullptr && !driver_->capturing(on) && driver_->record(mine->to, on) == 0;
  mine->samples = is_recorded ? samples : nullptr;
  const locked lock{mutex_};
  try {
    if (is_recorded) {
      recorded_.push_back(mine);
    } else {
      free_.push_back(mine);
    }
  } catch (const std::exception&) {  // no memory: the pair is not used again
    mine->samples = nullptr;
  }
  if (!is_recorded) tally_->count(&operator_tally::live_untimed);
}

SWITCHYARD_FUNCTION void event_timer::poll() noexcept {
  if (!mutex_.try_lock()) return;  // another thread reads
  read(recorded_.size());
  mutex_.unlock();
}

SWITCHYARD_FUNCTION void event_timer::read(std::size_t most) noexcept {
  // Streams run apart: a pair that is not over yet goes behind the others.
  for (std::size_t i = 0, known = recorded_.size(); i < most && i < known; ++i) {
    pair* const events = recorded_.front();
    bool is_over = false;
    double microseconds = 0;
    const status result = driver_->elapsed_if_over(events->from, events->to, is_over, microseconds);
    recorded_.pop_front();
    try {
      (result == 0 && !is_over) ? recorded_.push_back(events) : free_.push_back(events);
    } catch (const std::exception&) {  // no memory: the pair is not used again
      continue;
    }
    if (result == 0 && !is_over) continue;
    // A time that runs backwards, or stands still, says nothing.
    if (result == 0 && microseconds > 0 && std::isfinite(microseconds)) {
      events->samples->add(microseconds);
      tally_->count(&operator_tally::live_times);
    } else {
      tally_->count(&operator_tally::live_untimed);
    }
  }
}

SWITCHYARD_FUNCTION event_timer::pair* event_timer::take() noexcept {
  if (!free_.empty()) {
    pair* const out = free_.back();
    free_.pop_back();
    return out;
  }
  if (pairs_.size() >= limit_ || failures_ >= max_failures) return nullptr;
  pair made;
  try {
    made.from = driver_->create_event();
    made.to = driver_->create_event();
    pairs_.push_back(made);
    failures_ = 0;
    return &pairs_.back();
  } catch (const std::exception& problem) {
    driver_->destroy_event(made.from);
    driver_->destroy_event(made.to);
    count_failure(problem.what());
    return nullptr;
  }
}

SWITCHYARD_COLD void event_timer::count_failure(const char* why) noexcept {
  if (++failures_ != max_failures) return;
  try {
    warn_("live measuring: " + std::string{why} + " (" + std::to_string(max_failures) +
          " times in a row: no more calls " +
          (pairs_.empty() ? "are timed)" : "are timed at once than now)"));
  } catch (const std::exception&) {  // the line is lost
  }
}

}  // namespace v0
}  // namespace switchyard
