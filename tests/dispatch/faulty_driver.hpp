// SPDX-License-Identifier: MIT
// The host's driver with its calls counted, and with faults that a test asks for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>

namespace test {

namespace sy = switchyard;

class faulty_driver final : public sy::tune::forwarding_driver {
 public:
  explicit faulty_driver(std::string name = {}, std::size_t threads = 1)
      : forwarding_driver{std::make_shared<sy::host::driver>(threads)}, properties_{driver().properties()} {
    if (!name.empty()) properties_.name = std::move(name);
  }

  std::atomic<int> loads{0};
  std::atomic<int> unloads{0};
  std::atomic<int> launches{0};
  std::atomic<int> configurations{0};
  std::atomic<int> allocations{0};
  std::atomic<int> releases{0};
  std::atomic<bool> is_capturing{false};
  std::atomic<bool> is_out_of_memory{false};
  std::atomic<int> launch_status{0};
  std::atomic<bool> holds_next{false};       ///< the next launch waits until it may go on
  std::atomic<bool> holds_next_load{false};  ///< so does the next load
  std::atomic<bool> held{false};             ///< it waits
  std::atomic<bool> may_go_on{false};
  std::atomic<int> load_delay_ms{0};    ///< loading and unloading take as long
  std::atomic<int> loads_that_fail{0};  ///< the next loads find no memory
  std::atomic<bool> is_context_broken{false};

  /// Calls into load and unload by threads that are marked as callers.
  std::atomic<int> caller_entries{0};
  static inline thread_local bool is_caller = false;

  [[nodiscard]] const sy::device_properties& properties() const noexcept override { return properties_; }
  [[nodiscard]] sy::module_handle load(std::span<const std::byte> image, const std::string& name) override {
    const occupied here{*this};
    if (is_context_broken) {
      throw sy::driver_error{sy::error_code::driver_failed, name + ": an illegal address",
                             sy::failure_kind::context};
    }
    if (loads_that_fail > 0 && loads_that_fail.fetch_sub(1) > 0) {
      throw sy::driver_error{sy::error_code::out_of_memory, name + ": no memory",
                             sy::failure_kind::transient};
    }
    if (holds_next_load.exchange(false)) hold();
    sy::module_handle const out = driver().load(image, name);
    ++loads;
    return out;
  }
  void unload(sy::module_handle module) noexcept override {
    const occupied here{*this};
    ++unloads;
    driver().unload(module);
  }
  void configure(sy::function_handle function, const sy::launch_geometry& geometry) override {
    ++configurations;
    driver().configure(function, geometry);
  }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream stream) noexcept override {
    launches.fetch_add(1, std::memory_order_relaxed);
    if (launch_status != 0) return launch_status;
    if (holds_next.exchange(false)) hold();
    return driver().launch(function, geometry, parameters, stream);
  }
  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream stream) noexcept override {
    if (is_out_of_memory) return nullptr;
    ++allocations;
    return driver().allocate(bytes, stream);
  }
  void release(void* address, sy::stream stream) noexcept override {
    ++releases;
    driver().release(address, stream);
  }
  [[nodiscard]] bool capturing(sy::stream /*on*/) const noexcept override { return is_capturing; }

 private:
  void hold() noexcept {
    held = true;
    held.notify_all();
    may_go_on.wait(false);
  }

  /// Being in load or unload, for as long as the test wants.
  struct occupied {
    explicit occupied(faulty_driver& owner) {
      if (is_caller) ++owner.caller_entries;
      if (const int delay = owner.load_delay_ms)
        std::this_thread::sleep_for(std::chrono::milliseconds{delay});
    }
  };

  sy::device_properties properties_;
};

/// A host device on which nothing is loaded yet: what a program loads stays loaded.
[[nodiscard]] inline sy::device fresh_host() {
  return sy::device{std::make_shared<sy::host::driver>(1)};
}

}  // namespace test
