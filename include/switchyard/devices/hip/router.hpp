// SPDX-License-Identifier: MIT
// Finds the HIP device of a stream, for dispatchers that serve all devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

/// Identifies streams by their devices, and asks for them at each call: HIP does not document what a kernel
/// does on a stream of another device than its module's.
class router final : public stream_router {
 public:
  /// Throws driver_error as open_library does.
  explicit router(options from = {}) : from_{std::move(from)}, library_{open_library(from_)} {}

  [[nodiscard]] device of(stream on) override { return device{hip::of(on, from_)}; }
  [[nodiscard]] std::uintptr_t key(stream on) noexcept override {
    std::optional<int> ordinal;
    if (is_default(on)) {
      int current = 0;
      if (library_->get_device(&current) == result::success) ordinal = current;
    } else {
      ordinal = detail::device_of(*library_, on);
    }
    return ordinal ? static_cast<std::uintptr_t>(*ordinal) + 1 : 0;
  }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return false; }

 private:
  options from_;
  std::shared_ptr<const api> library_;
};

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
