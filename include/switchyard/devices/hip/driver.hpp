// SPDX-License-Identifier: MIT
// The hip backend: one AMD GPU behind the interface of devices/driver.hpp.
//
// HIP has one current device for each thread; its contexts are not used. Any thread may call: the device is
// made current if it is not, and the thread's own is restored afterwards. open.hpp makes drivers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/code_object.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/module.hpp>
#include <switchyard/devices/hip/properties.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hardware/launch_limits.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

class driver final : public device_driver {
 public:
  /// Use open, current or of (open.hpp).
  driver(std::shared_ptr<const api> library, int ordinal)
      : library_{std::move(library)}, ordinal_{ordinal}, facts_{read_facts(*library_, ordinal)} {}

  /// The device's number, as hipSetDevice counts.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// The architecture is as the library spells it, features included: "gfx942:sramecc+:xnack-".
  [[nodiscard]] const device_properties& properties() const noexcept override { return facts_.properties; }

  /// Takes a code object or a bundle of them.
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    return load_module(*library_, ordinal_, facts_, image, name).release();
  }

  void unload(module_handle module) noexcept override {
    const std::unique_ptr<loaded_module> record{static_cast<loaded_module*>(module)};
    if (record == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    const relaxed_capture relaxed{*library_};
    if (guard.status() == result::success) library_->module_unload(record->module);
  }

  /// The handle is good until the module is unloaded.
  [[nodiscard]] function_handle find(module_handle module, const std::string& kernel) override {
    return find_kernel(*library_, ordinal_, facts_.properties.name, *static_cast<loaded_module*>(module),
                       kernel);
  }

  /// From the code object's metadata. False if the blob has none, or is a compressed bundle.
  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    out.clear();
    const auto& kernel = kernel_of(function);
    if (kernel.description) out = kernel.description->parameters;
    return kernel.description.has_value();
  }

  /// What the code object says of a kernel; nothing if parameters() returns false.
  [[nodiscard]] static const std::optional<kernel_description>& description(
      function_handle function) noexcept {
    return kernel_of(function).description;
  }

  /// Sets nothing. Throws driver_error launch_failed for a launch that could never succeed on this device.
  /// HIP starts fewer than 2^32 work-items in a dimension.
  [[nodiscard]] bool accepts_grid(const launch_geometry& geometry) const noexcept override {
    return switchyard::detail::fits_hip(geometry.grid, geometry.block);
  }

  void configure(function_handle function, const launch_geometry& geometry) override {
    const auto& kernel = kernel_of(function);
    const auto refuse = [&](const std::string& problem) {
      throw driver_error{error_code::launch_failed,
                         "kernel '" + kernel.name + "' " + problem + " on " + facts_.properties.name};
    };
    if (!(geometry.cluster == dim3{}))
      refuse("needs clusters, which the device or its driver does not support");
    if (geometry.cooperative &&
        (!facts_.cooperative || library_->module_launch_cooperative_kernel == nullptr))
      refuse("needs cooperative launches, which the device or its driver does not support");
    std::int64_t fixed = 0;
    if (kernel.description) {
      fixed = kernel.description->shared_bytes;
      const auto threads = std::uint64_t{geometry.block.x} * geometry.block.y * geometry.block.z;
      const std::uint64_t max_threads = kernel.description->max_threads_per_block;
      if (max_threads != 0 && threads > max_threads) {
        refuse("takes at most " + std::to_string(max_threads) + " threads a block, not " +
               std::to_string(threads) + ",");
      }
    }
    if (fixed + geometry.shared_bytes > facts_.shared_bytes_per_block) {
      refuse("needs " + std::to_string(fixed) + " + " + std::to_string(geometry.shared_bytes) +
             " bytes of shared memory a block; there are " + std::to_string(facts_.shared_bytes_per_block));
    }
  }

  /// A programmatic dependent launch runs as an ordinary one: it only permits an overlap.
  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream on) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) [[unlikely]]
      return guard.status();
    if (!(geometry.cluster == dim3{})) [[unlikely]]
      return result::not_supported;
    ihipModuleSymbol_t* const kernel = kernel_of(function).function;
    const dim3& grid = geometry.grid;
    const dim3& block = geometry.block;
    if (geometry.cooperative) {
      if (library_->module_launch_cooperative_kernel == nullptr) return result::not_supported;
      return library_->module_launch_cooperative_kernel(kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                        block.z, geometry.shared_bytes, handle(on),
                                                        parameters);
    }
    return library_->module_launch_kernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                          geometry.shared_bytes, handle(on), parameters, nullptr);
  }
  [[nodiscard]] status try_launch(function_handle function, const launch_geometry& geometry,
                                  void** parameters, stream on) noexcept override {
    return launch(function, geometry, parameters, on);
  }

  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream on) noexcept override {
    if (bytes == 0) return result::success;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->memset_async(address, byte, bytes, handle(on));
  }

  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream on) noexcept override {
    if (bytes == 0) return result::success;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->memcpy_async(to, from, bytes, copy_by_address, handle(on));
  }

  [[nodiscard]] status synchronize(stream on) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->stream_synchronize(handle(on));
  }

  [[nodiscard]] event_handle create_event() override {
    const device_guard guard{*library_, ordinal_};
    require(guard.status(), "cannot make the device current");
    ihipEvent_t* event = nullptr;
    require(library_->event_create(&event), "cannot create an event");
    return event;
  }
  void destroy_event(event_handle event) noexcept override {
    if (event == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() == result::success) library_->event_destroy(static_cast<ihipEvent_t*>(event));
  }
  [[nodiscard]] status record(event_handle event, stream on) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->event_record(static_cast<ihipEvent_t*>(event), handle(on));
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    auto* const last = static_cast<ihipEvent_t*>(to);
    if (const int code = library_->event_synchronize(last); code != result::success) return code;
    float milliseconds = 0;
    const int code = library_->event_elapsed_time(&milliseconds, static_cast<ihipEvent_t*>(from), last);
    if (code == result::success) microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }
  [[nodiscard]] status elapsed_if_over(event_handle from, event_handle to, bool& is_over,
                                       double& microseconds) noexcept override {
    is_over = false;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    const relaxed_capture relaxed{*library_};  // a query would end another stream's capture
    auto* const last = static_cast<ihipEvent_t*>(to);
    if (const int code = library_->event_query(last); code != result::success) {
      library_->get_last_error();
      return code == result::not_ready ? result::success : code;
    }
    float milliseconds = 0;
    const int code = library_->event_elapsed_time(&milliseconds, static_cast<ihipEvent_t*>(from), last);
    if (code != result::success) return code;
    is_over = true;
    microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }

  [[nodiscard]] void* allocate(std::size_t bytes, stream on) noexcept override {
    if (library_->malloc_async == nullptr) return nullptr;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return nullptr;
    void* address = nullptr;
    if (library_->malloc_async(&address, std::max(bytes, std::size_t{1}), handle(on)) == result::success)
      return address;
    library_->get_last_error();
    return nullptr;
  }

  void release(void* address, stream on) noexcept override {
    if (address == nullptr || library_->free_async == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() == result::success) library_->free_async(address, handle(on));
  }

  /// These devices have no tensor maps: hipErrorNotSupported.
  [[nodiscard]] status encode(const tensor_map_request& /*request*/, void* /*map*/) noexcept override {
    return result::not_supported;
  }

  [[nodiscard]] bool capturing(stream on) const noexcept override {
    const device_guard guard{*library_, ordinal_};
    int state = capture::none;
    const int code = library_->stream_is_capturing(handle(on), &state);
    if (code != result::success) library_->get_last_error();
    if (code >= result::stream_capture_unsupported && code <= result::captured_event) return true;
    return code == result::success && state != capture::none;
  }

  [[nodiscard]] bool owns(stream on) const noexcept override {
    const auto ordinal = is_default(on) ? std::nullopt : detail::device_of(*library_, on);
    return !ordinal || *ordinal == ordinal_;
  }

  [[nodiscard]] std::string describe(status code) const override { return hip::describe(*library_, code); }

 private:
  [[nodiscard]] static const loaded_kernel& kernel_of(function_handle function) noexcept {
    return *static_cast<const loaded_kernel*>(function);
  }
  [[nodiscard]] static ihipStream_t* handle(stream on) noexcept { return static_cast<ihipStream_t*>(on); }

  void require(int code, std::string_view problem) const {
    hip::require(*library_, code, facts_.properties.name, problem);
  }

  std::shared_ptr<const api> library_;
  int ordinal_ = 0;
  device_facts facts_;
};

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
