// SPDX-License-Identifier: MIT
// The interface that finds the device of a stream.
#pragma once

#include <cstdint>
#include <memory>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>

namespace switchyard {
inline namespace v0 {

/// Finds the device of a stream, for dispatchers that serve all devices. A default stream belongs to the
/// calling thread's current device. Any thread may call any function.
class stream_router {
 public:
  stream_router() = default;
  stream_router(const stream_router&) = delete;
  stream_router& operator=(const stream_router&) = delete;
  virtual ~stream_router() = default;

  /// The stream's device. Throws driver_error.
  [[nodiscard]] virtual device of(stream on) = 0;

  /// A number that identifies the stream's device as long as the device lives, found without locks. 0 if the
  /// API cannot tell.
  [[nodiscard]] virtual std::uintptr_t key(stream on) noexcept = 0;

  /// Whether the driver refuses to launch a kernel on a stream of another device. If so, the device of a
  /// known stream may be cached: if another stream has the handle by now, the launch fails.
  [[nodiscard]] virtual bool refuses_foreign_streams() const noexcept = 0;

  /// For what the machine has: CUDA, else HIP, else the CPU alone. Throws driver_error unsupported_device if
  /// there are devices of both, because a stream handle does not identify its backend. Defined in device.hpp.
  [[nodiscard]] static std::shared_ptr<stream_router> of_machine();
};

}  // namespace v0
}  // namespace switchyard
