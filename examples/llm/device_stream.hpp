// SPDX-License-Identifier: MIT
// The engine's own stream, which no other stream waits for; the CPU has only one.
#pragma once

#include <memory>
#include <utility>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>

#include "device_api.hpp"

namespace llm {

class device_stream {
 public:
  /// `api` is null for the CPU.
  device_stream(const switchyard::device& device, std::shared_ptr<const device_api> api)
      : device_{device}, api_{std::move(api)} {
    if (api_ == nullptr) return;
    const device_scope current{api_.get()};
    constexpr unsigned non_blocking = 1;
    api_->require(api_->stream_create(&handle_, non_blocking), "making a stream");
  }
  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  ~device_stream() {
    if (handle_ == nullptr) return;
    const device_scope current{api_.get()};
    api_->stream_destroy(handle_);
  }

  [[nodiscard]] switchyard::stream get() const noexcept { return handle_; }

  /// Copies between host and device memory, in stream order.
  void copy(void* to, const void* from, std::size_t bytes) const {
    require(device_.driver()->copy(to, from, bytes, get()));
  }
  /// Waits for everything on the stream.
  void wait() const { require(device_.driver()->synchronize(get())); }

 private:
  void require(switchyard::status result) const {
    if (result != 0 && api_ != nullptr) api_->require(result, "running a step");
  }

  switchyard::device device_;
  std::shared_ptr<const device_api> api_;
  void* handle_ = nullptr;
};

}  // namespace llm
