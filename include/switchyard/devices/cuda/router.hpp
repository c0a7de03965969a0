// SPDX-License-Identifier: MIT
// Finds the CUDA device of a stream, for dispatchers that serve all devices.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// Identifies streams by their contexts. The driver refuses a kernel on a stream of another context than its
/// module's.
class router final : public stream_router {
 public:
  /// Throws driver_error as open_library does.
  explicit router(options from = {}) : from_{std::move(from)}, library_{open_library(from_)} {}

  [[nodiscard]] device of(stream on) override { return device{cuda::of(on, from_)}; }
  [[nodiscard]] std::uintptr_t key(stream on) noexcept override {
    constexpr std::uintptr_t no_context = 1;  // stands for device 0's primary context, as in `current`
    CUctx_st* context = nullptr;
    const bool is_current = is_default(on);
    const int code =
        is_current ? library_->ctx_get_current(&context) : detail::context_of(*library_, on, &context);
    if (code != result::success) return 0;
    return context == nullptr ? (is_current ? no_context : 0) : reinterpret_cast<std::uintptr_t>(context);
  }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return true; }

 private:
  options from_;
  std::shared_ptr<const api> library_;
};

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
