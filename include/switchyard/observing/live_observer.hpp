// SPDX-License-Identifier: MIT
// The interfaces of live measuring that the path of a call uses: one takes the times of calls, the other
// keeps them. event_timer.hpp and live_records.hpp implement them, for catalogs.
#pragma once

#include <cstdint>

#include <switchyard/devices/stream.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

struct device_properties;
struct variant;
class live_samples;

/// Keeps the times of real calls. Any thread may call.
class live_observer {
 public:
  live_observer() = default;
  live_observer(const live_observer&) = delete;
  live_observer& operator=(const live_observer&) = delete;
  virtual ~live_observer() = default;

  /// Where the times of a variant's calls of a problem are kept, for as long as the observer lives. Null
  /// where calls are not timed, or there is no room.
  [[nodiscard]] virtual live_samples* samples_of(const operator_description& op,
                                                 const device_properties& device, problem_view problem,
                                                 const variant& of) = 0;
};

/// Times calls on one device without waiting for it. Any thread may call.
class live_timer {
 public:
  explicit live_timer(std::uint32_t one_in) noexcept : one_in_{one_in} {}
  live_timer(const live_timer&) = delete;
  live_timer& operator=(const live_timer&) = delete;
  virtual ~live_timer() = default;

  /// Whether the call of this number is timed.
  [[nodiscard]] bool is_due(std::uint64_t number) const noexcept { return number % one_in_ == 0; }

  /// Begins to time what is put into the stream next; null where it cannot be timed now.
  [[nodiscard]] virtual void* begin(stream on) noexcept = 0;
  /// Ends what begin() gave; the time is added to the samples when it is known. Null samples: it is dropped.
  virtual void end(void* begun, stream on, live_samples* samples) noexcept = 0;
  /// Adds the times that are known by now.
  virtual void poll() noexcept = 0;

 private:
  std::uint32_t one_in_;
};

namespace detail {

/// Times a call; one that throws is dropped.
class timed_call {
 public:
  timed_call(live_timer& timer, stream on) noexcept : timer_{timer}, on_{on}, begun_{timer.begin(on)} {}
  timed_call(const timed_call&) = delete;
  timed_call& operator=(const timed_call&) = delete;
  ~timed_call() {
    if (begun_ != nullptr) timer_.end(begun_, on_, samples_);
  }
  void finish(live_samples* samples) noexcept { samples_ = samples; }

 private:
  live_timer& timer_;
  stream on_;
  void* begun_;
  live_samples* samples_ = nullptr;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
