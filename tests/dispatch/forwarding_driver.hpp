// The host's driver with its calls counted, and with faults that a test asks for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/error.hpp>

namespace test {

namespace sy = switchyard;

class forwarding_driver final : public sy::device_driver {
 public:
  explicit forwarding_driver(std::string name = {}, std::size_t threads = 1)
      : host_{threads}, properties_{host_.properties()} {
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
  std::atomic<bool> holds_next{false};  ///< the next launch waits until it may go on
  std::atomic<bool> held{false};        ///< it waits
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
    sy::module_handle const out = host_.load(image, name);
    ++loads;
    return out;
  }
  void unload(sy::module_handle module) noexcept override {
    const occupied here{*this};
    ++unloads;
    host_.unload(module);
  }
  [[nodiscard]] sy::function_handle find(sy::module_handle module, const std::string& kernel) override {
    return host_.find(module, kernel);
  }
  [[nodiscard]] bool parameters(sy::function_handle function, std::vector<sy::parameter_slot>& out) override {
    return host_.parameters(function, out);
  }
  void configure(sy::function_handle function, const sy::launch_geometry& geometry) override {
    ++configurations;
    host_.configure(function, geometry);
  }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream stream) noexcept override {
    launches.fetch_add(1, std::memory_order_relaxed);
    if (launch_status != 0) return launch_status;
    if (holds_next.exchange(false)) {
      held = true;
      held.notify_all();
      may_go_on.wait(false);
    }
    return host_.launch(function, geometry, parameters, stream);
  }
  [[nodiscard]] sy::status fill(void* address, std::uint8_t byte, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return host_.fill(address, byte, bytes, stream);
  }
  [[nodiscard]] sy::status copy(void* to, const void* from, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return host_.copy(to, from, bytes, stream);
  }
  [[nodiscard]] sy::status synchronize(sy::stream stream) noexcept override {
    return host_.synchronize(stream);
  }
  [[nodiscard]] sy::event_handle create_event() override { return host_.create_event(); }
  void destroy_event(sy::event_handle event) noexcept override { host_.destroy_event(event); }
  [[nodiscard]] sy::status record(sy::event_handle event, sy::stream stream) noexcept override {
    return host_.record(event, stream);
  }
  [[nodiscard]] sy::status elapsed(sy::event_handle from, sy::event_handle to,
                                   double& microseconds) noexcept override {
    return host_.elapsed(from, to, microseconds);
  }
  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream stream) noexcept override {
    if (is_out_of_memory) return nullptr;
    ++allocations;
    return host_.allocate(bytes, stream);
  }
  void release(void* address, sy::stream stream) noexcept override {
    ++releases;
    host_.release(address, stream);
  }
  [[nodiscard]] sy::status encode(const sy::tensor_map_request& request, void* map) noexcept override {
    return host_.encode(request, map);
  }
  [[nodiscard]] bool capturing(sy::stream /*where*/) const noexcept override { return is_capturing; }
  [[nodiscard]] std::string describe(sy::status code) const override { return host_.describe(code); }

 private:
  /// Being in load or unload, for as long as the test wants.
  struct occupied {
    explicit occupied(forwarding_driver& owner) {
      if (is_caller) ++owner.caller_entries;
      if (const int delay = owner.load_delay_ms)
        std::this_thread::sleep_for(std::chrono::milliseconds{delay});
    }
  };

  sy::host::driver host_;
  sy::device_properties properties_;
};

/// A host device on which nothing is loaded yet: what a program loads stays loaded.
[[nodiscard]] inline sy::device fresh_host() {
  return sy::device{std::make_shared<sy::host::driver>(1)};
}

}  // namespace test
