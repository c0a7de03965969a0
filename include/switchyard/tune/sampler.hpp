// SPDX-License-Identifier: MIT
// Takes samples of a call's time on a device: of the device alone, as far as the conditions allow.
//
// Launch overhead does not hide a short kernel: calls are queued behind a fill, or replayed as a graph.
// Everything runs on the null stream, so that several variants can be sampled in turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tune/measuring/cache_bytes.hpp>
#include <switchyard/tune/memory.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// What is in the caches when a call begins.
enum class cache_state : std::uint8_t {
  rotating,  ///< tensors take turns, so that a cache does not hold them; calls follow one another
  cold,      ///< nothing of use: a larger buffer is written before each call, which is timed alone
  warm,      ///< what the call before left there: the same tensors each time
};

/// How calls reach the device.
enum class launch_mode : std::uint8_t {
  device,  ///< as one stream of work that waits on the device: no call waits for its launch
  stream,  ///< one by one, as a program's launches come: a short kernel waits for the next launch
  graph,   ///< as a graph that is replayed
};

/// One sample.
struct sample_options {
  std::size_t calls = 1;
  std::size_t untimed = 0;  ///< calls just before, of which nothing is counted
  double expected_us = 0;   ///< of a call, about; 0: not known
  launch_mode launches = launch_mode::device;
  cache_state cache = cache_state::rotating;
};

/// A recorded graph, destroyed with the object.
class recorded_graph {
 public:
  recorded_graph() = default;
  recorded_graph(std::shared_ptr<device_driver> driver, graph_handle graph, std::size_t calls) noexcept
      : driver_{std::move(driver)}, graph_{graph}, calls_{calls} {}
  recorded_graph(recorded_graph&& other) noexcept { swap(other); }
  recorded_graph& operator=(recorded_graph&& other) noexcept {
    swap(other);
    return *this;
  }
  recorded_graph(const recorded_graph&) = delete;
  recorded_graph& operator=(const recorded_graph&) = delete;
  ~recorded_graph() {
    if (graph_ != nullptr) driver_->destroy_graph(graph_);
  }

  [[nodiscard]] graph_handle get() const noexcept { return graph_; }
  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }

 private:
  void swap(recorded_graph& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(graph_, other.graph_);
    std::swap(calls_, other.calls_);
  }

  std::shared_ptr<device_driver> driver_;
  graph_handle graph_ = nullptr;
  std::size_t calls_ = 0;
};

/// Two events of a device, the memory whose fill holds a stream up, and the stream that graphs are recorded
/// from. For one thread. Throws driver_error.
class sampler {
 public:
  explicit sampler(std::shared_ptr<device_driver> driver)
      : driver_{std::move(driver)}, from_{driver_->create_event()}, to_{driver_->create_event()} {}
  sampler(const sampler&) = delete;
  sampler& operator=(const sampler&) = delete;
  ~sampler() {
    driver_->destroy_event(from_);
    driver_->destroy_event(to_);
    if (recording_.handle() != nullptr) driver_->destroy_stream(recording_);
  }

  /// Microseconds of one of `options.calls` calls. `call(stream)` enqueues one; what it needs is loaded
  /// before. `graph` keeps what was recorded for the next sample of the same calls.
  template <class Call>
  [[nodiscard]] double sample(const sample_options& options, const Call& call, recorded_graph& graph) {
    const std::size_t calls = timed_calls(options);
    const bool as_graph = keep_recorded(options, call, graph);
    // The fill that holds the stream up takes the caches: a warm one is warmed behind it.
    const std::size_t untimed =
        std::max<std::size_t>(options.untimed, options.cache == cache_state::warm ? 1 : 0);
    if (options.launches != launch_mode::stream) delay(untimed + (as_graph ? 1 : calls), options.expected_us);
    for (std::size_t i = 0; i < untimed; ++i) call(stream{});
    if (options.cache == cache_state::cold) flush();
    require(driver_->record(from_, {}));
    if (as_graph) {
      require(driver_->launch_graph(graph.get(), {}));
    } else {
      for (std::size_t i = 0; i < calls; ++i) call(stream{});
    }
    require(driver_->record(to_, {}));
    double microseconds = 0;
    require(driver_->elapsed(from_, to_, microseconds));
    return microseconds / static_cast<double>(calls);
  }
  template <class Call>
  [[nodiscard]] double sample(const sample_options& options, const Call& call) {
    recorded_graph unkept;
    return sample(options, call, unkept);
  }

  /// Records the calls of a sample that is taken as a graph, unless `graph` has them. Whether it is. Throws
  /// driver_error where they cannot be recorded.
  template <class Call>
  bool keep_recorded(const sample_options& options, const Call& call, recorded_graph& graph) {
    if (options.launches != launch_mode::graph || !driver_->has_graphs()) return false;
    if (graph.calls() != timed_calls(options)) graph = record(timed_calls(options), call);
    return true;
  }

 private:
  [[nodiscard]] static std::size_t timed_calls(const sample_options& options) noexcept {
    return options.cache == cache_state::cold ? 1 : std::max<std::size_t>(options.calls, 1);
  }

  /// Calls as a graph that is ready to be launched.
  template <class Call>
  [[nodiscard]] recorded_graph record(std::size_t calls, const Call& call) {
    if (recording_.handle() == nullptr) recording_ = driver_->create_stream();
    require(driver_->begin_graph(recording_));
    graph_handle made = nullptr;
    try {
      for (std::size_t i = 0; i < calls; ++i) call(recording_);
    } catch (...) {
      if (driver_->end_graph(recording_, made) == 0) driver_->destroy_graph(made);
      throw;
    }
    require(driver_->end_graph(recording_, made));
    return {driver_, made, calls};
  }

  /// Launches take the host up to 9 us each, and what a device would wait for them passes behind a fill.
  /// Where calls take longer than that, the device waits for the first one only.
  static constexpr double launch_us = 9;
  static constexpr double first_launch_us = 30;
  static constexpr double longest_hidden_us = 12;
  static constexpr double bytes_per_us = 3e6;  // that a device fills, about
  static constexpr std::size_t delay_bytes = std::size_t{1} << 30U;

  void delay(std::size_t launches, double expected_us) {
    if (driver_->properties().backend == "host") return;  // calls are complete when they return
    if (expected_us >= longest_hidden_us) launches = 1;
    if (!asked_for_delay_) {
      asked_for_delay_ = true;
      try {
        delay_ = device_buffer{driver_, largest_delay()};
      } catch (const driver_error&) {  // the device is full: short calls show their launches
      }
    }
    if (delay_.bytes() == 0) return;
    const double wanted = (first_launch_us + launch_us * static_cast<double>(launches)) * bytes_per_us;
    delay_.fill(0, 0, std::min(delay_.bytes(), static_cast<std::size_t>(wanted)));
  }

  /// A sixteenth of the memory at the most: no problem shall fail for the sake of the clock.
  [[nodiscard]] std::size_t largest_delay() const {
    const auto memory = static_cast<std::size_t>(driver_->properties().attribute("memory_bytes"));
    return memory == 0 ? delay_bytes : std::clamp<std::size_t>(memory / 16, 1, delay_bytes);
  }

  /// Writes over what the caches hold.
  void flush() {
    const auto bytes = static_cast<std::size_t>(cache_bytes(driver_->properties()));
    if (bytes == 0) return;
    if (flush_.bytes() < bytes) flush_ = device_buffer{driver_, bytes};
    flush_.fill(++flushed_);
  }

  void require(status result) const {
    if (result != 0) throw driver_error{error_code::driver_failed, "measuring: " + driver_->describe(result)};
  }

  std::shared_ptr<device_driver> driver_;
  event_handle from_;
  event_handle to_;
  stream recording_;
  device_buffer delay_;
  bool asked_for_delay_ = false;
  device_buffer flush_;
  std::uint8_t flushed_ = 0;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
