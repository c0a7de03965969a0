// SPDX-License-Identifier: MIT
// Current devices: the one a stream belongs to, a device made current for a scope, and loading while a stream
// is captured.
#pragma once

#include <cstdint>
#include <optional>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/stream.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

/// Makes a device current on the calling thread until the end of the scope.
class device_guard {
 public:
  device_guard(const api& library, int device) noexcept : library_{library} {
    status_ = library_.get_device(&previous_);
    if (status_ == result::success && previous_ == device) [[likely]]
      return;
    restore_ = status_ == result::success;
    status_ = library_.set_device(device);
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;
  ~device_guard() {
    if (restore_) [[unlikely]]
      library_.set_device(previous_);
  }

  /// Not success when the device cannot be made current.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  const api& library_;
  int previous_ = 0;
  int status_ = result::success;
  bool restore_ = false;
};

/// Lets the calling thread load modules while streams are captured, if the library has such a mode.
class relaxed_capture {
 public:
  explicit relaxed_capture(const api& library) noexcept : library_{library} {
    exchanged_ = library_.thread_exchange_stream_capture_mode != nullptr &&
                 library_.thread_exchange_stream_capture_mode(&mode_) == result::success;
  }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;
  ~relaxed_capture() {
    if (exchanged_) library_.thread_exchange_stream_capture_mode(&mode_);
  }

 private:
  const api& library_;
  int mode_ = capture::relaxed;
  bool exchanged_ = false;
};

/// Whether it is the null stream, hipStreamLegacy or hipStreamPerThread. These belong to the current device.
[[nodiscard]] inline bool is_default(stream on) noexcept {
  return reinterpret_cast<std::uintptr_t>(on.handle()) <= 2;
}

namespace detail {

/// The device of a stream that is no default stream; nothing if the library cannot tell.
[[nodiscard]] inline std::optional<int> device_of(const api& library, stream on) noexcept {
  auto* const handle = static_cast<ihipStream_t*>(on);
  int ordinal = -1;
  if (library.stream_get_device != nullptr) {
    if (library.stream_get_device(handle, &ordinal) == result::success) return ordinal;
    library.get_last_error();
  } else if (library.get_stream_device_id != nullptr) {
    ordinal = library.get_stream_device_id(handle);
  }
  return ordinal < 0 ? std::nullopt : std::optional{ordinal};
}

}  // namespace detail

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
