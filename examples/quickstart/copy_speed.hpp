// SPDX-License-Identifier: MIT
// How fast a device copies: what a call that only moves memory can reach.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/memory.hpp>

namespace quickstart {

namespace sy = switchyard;

/// Speeds in GB/s of bytes read and written, measured for each size that is asked about: small copies run
/// from caches, and take as long as starting them does.
class copy_speed {
 public:
  explicit copy_speed(const sy::device& device) : driver_{device.driver()} {
    const bool on_host = device.properties().backend == "host";
    threads_ = on_host ? sy::host::usable_processors() : 0;
    most_ = on_host ? std::size_t{256} << 20U : std::size_t{1} << 30U;
    from_ = sy::tune::device_buffer{driver_, most_};
    to_ = sy::tune::device_buffer{driver_, most_};
    from_.fill(0x3f);
    to_.fill(0);
  }

  /// Of a copy that reads and writes `bytes` together.
  [[nodiscard]] double of(double bytes) const {
    const auto half = std::min(static_cast<std::size_t>(bytes / 2), most_);
    const sy::tune::timing_options options{.warm_up_us = 10'000, .sample_us = 20'000, .samples = 9};
    const double microseconds = sy::tune::time_call(driver_, options, [&] { copy(half); }).microseconds;
    return 2 * static_cast<double>(half) / microseconds / 1e3;
  }
  [[nodiscard]] double max_bytes() const { return 2 * static_cast<double>(most_); }

 private:
  /// On the CPU one thread does not reach the memory's speed: large copies are shared among all.
  void copy(std::size_t bytes) const {
    constexpr std::size_t worth_a_thread = std::size_t{1} << 20U;
    const std::size_t parts = std::min(threads_, bytes / worth_a_thread);
    if (parts < 2) {
      (void)driver_->copy(to_.data(), from_.data(), bytes, {});
      return;
    }
    const auto copy_part = [&](std::size_t part) {
      const std::size_t begin = bytes * part / parts;
      std::memcpy(to_.data<std::byte>() + begin, from_.data<std::byte>() + begin,
                  bytes * (part + 1) / parts - begin);
    };
    std::vector<std::thread> others;
    for (std::size_t part = 1; part < parts; ++part) others.emplace_back(copy_part, part);
    copy_part(0);
    for (std::thread& thread : others) thread.join();
  }

  std::shared_ptr<sy::device_driver> driver_;
  std::size_t threads_ = 0;
  std::size_t most_ = 0;
  sy::tune::device_buffer from_;
  sy::tune::device_buffer to_;
};

}  // namespace quickstart
