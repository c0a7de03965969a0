// SPDX-License-Identifier: MIT
// Where temporary device memory comes from: a device's driver, or a program's own allocator.
#pragma once

#include <cstddef>

#include <switchyard/devices/stream.hpp>

namespace switchyard {
inline namespace v0 {

class device_driver;

/// Any thread may call.
class memory_source {
 public:
  memory_source() = default;
  memory_source(const memory_source&) = delete;
  memory_source& operator=(const memory_source&) = delete;
  virtual ~memory_source() = default;

  /// Stream-ordered memory. Null when there is none left. A source that is not a driver may throw.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, stream on) = 0;
  virtual void release(void* address, stream on) noexcept = 0;

  /// Of the device whose memory it is.
  [[nodiscard]] virtual const device_driver& driver_of_memory() const noexcept = 0;
};

}  // namespace v0
}  // namespace switchyard
