// SPDX-License-Identifier: MIT
// Work that was captured on a stream and is replayed with one launch.
#pragma once

#include <functional>
#include <memory>

#include <switchyard/devices/stream.hpp>

#include "device_api.hpp"

namespace llm {

class device_graph {
 public:
  device_graph() = default;
  /// Captures what `work` puts on the stream; nothing runs. The device must be current. Throws what `work`
  /// throws, and driver_error.
  device_graph(std::shared_ptr<const device_api> api, switchyard::stream on,
               const std::function<void()>& work);
  device_graph(device_graph&& other) noexcept { swap(other); }
  device_graph& operator=(device_graph&& other) noexcept {
    swap(other);
    return *this;
  }
  device_graph(const device_graph&) = delete;
  device_graph& operator=(const device_graph&) = delete;
  ~device_graph();

  [[nodiscard]] explicit operator bool() const noexcept { return executable_ != nullptr; }
  void launch(switchyard::stream on) const;

 private:
  void swap(device_graph& other) noexcept;

  std::shared_ptr<const device_api> api_;
  void* executable_ = nullptr;
};

}  // namespace llm
