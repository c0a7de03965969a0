// SPDX-License-Identifier: MIT
// Memory that the engine owns: of the device, and of the host where the device copies from and to it fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>

#include "device_api.hpp"

namespace llm {

/// Memory of a device, freed with the object. All functions are synchronous: every stream may use the memory
/// afterwards. When it is freed, no stream may use it.
class device_memory {
 public:
  device_memory() = default;
  /// Throws driver_error out_of_memory.
  device_memory(const switchyard::device& device, std::size_t bytes);
  device_memory(device_memory&& other) noexcept { swap(other); }
  device_memory& operator=(device_memory&& other) noexcept {
    swap(other);
    return *this;
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory();

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Copies from host memory to the offset `first` in bytes.
  void upload(const void* from, std::size_t bytes, std::size_t first = 0);
  void fill(std::uint8_t byte);

 private:
  void swap(device_memory& other) noexcept;
  void finish(switchyard::status result, const char* problem) const;

  std::shared_ptr<switchyard::device_driver> driver_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Memory of the host. A GPU copies from and to it without the driver's help, in stream order: pageable
/// memory would make each copy wait.
class host_memory {
 public:
  host_memory() = default;
  /// Pinned for a GPU; `api` is null for the CPU. Throws driver_error or std::bad_alloc.
  host_memory(std::shared_ptr<const device_api> api, std::size_t bytes);
  host_memory(host_memory&& other) noexcept { swap(other); }
  host_memory& operator=(host_memory&& other) noexcept {
    swap(other);
    return *this;
  }
  host_memory(const host_memory&) = delete;
  host_memory& operator=(const host_memory&) = delete;
  ~host_memory();

  template <class Value = std::byte>
  [[nodiscard]] Value* data() const noexcept {
    return static_cast<Value*>(address_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void swap(host_memory& other) noexcept;

  std::shared_ptr<const device_api> api_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace llm
