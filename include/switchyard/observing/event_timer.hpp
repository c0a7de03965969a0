// SPDX-License-Identifier: MIT
// Times calls by events of the driver, which are read later: nobody waits for a device. Nothing is recorded
// in a stream that is being captured.
//
// Any thread may call. A call that would wait for another one is not timed. Events are made as they are
// needed, up to a limit, and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/observing/live_options.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

class event_timer final : public live_timer {
 public:
  /// `owner` keeps the samples alive. `tally` counts; `warn` is called once if events cannot be made.
  event_timer(const live_options& options, std::shared_ptr<device_driver> driver,
              std::shared_ptr<live_observer> owner, std::shared_ptr<operator_tally> tally,
              std::function<void(const std::string&)> warn);
  /// Calls may still be under way on the device: their times are lost.
  SWITCHYARD_FUNCTION ~event_timer() override;

  [[nodiscard]] SWITCHYARD_FUNCTION void* begin(stream on) noexcept override;
  SWITCHYARD_FUNCTION void end(void* begun, stream on, live_samples* samples) noexcept override;
  SWITCHYARD_FUNCTION void poll() noexcept override;

 private:
  struct pair {
    event_handle from = nullptr;
    event_handle to = nullptr;
    live_samples* samples = nullptr;
  };

  static constexpr unsigned max_failures = 8;     ///< in a row, after which nothing is timed any more
  static constexpr std::size_t read_at_once = 8;  ///< by a call

  /// Reads at most so many pairs, oldest first. The caller holds the mutex.
  void read(std::size_t most) noexcept;

  /// A pair that is free, or a new one; null where there is none. The caller holds the mutex.
  [[nodiscard]] pair* take() noexcept;

  void count_failure(const char* why) noexcept;

  std::size_t limit_;
  std::shared_ptr<device_driver> driver_;
  std::shared_ptr<live_observer> owner_;
  std::shared_ptr<operator_tally> tally_;
  std::function<void(const std::string&)> warn_;
  mutex mutex_;
  std::deque<pair> pairs_;  // all of them; guarded by mutex_, like what follows
  std::vector<pair*> free_;
  std::deque<pair*> recorded_;  // in the order of their calls
  unsigned failures_ = 0;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/event_timer_impl.hpp>
#endif
