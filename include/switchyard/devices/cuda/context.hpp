// SPDX-License-Identifier: MIT
// Contexts: the one a stream belongs to, a context made current for a scope, and loading while a stream is
// captured.
#pragma once

#include <cstdint>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// Makes `context` current on the calling thread until the end of the scope. Costs one query if it is current
/// already, as in an engine's own thread.
class context_guard {
 public:
  context_guard(const api& library, CUctx_st* context) noexcept : library_{library} {
    CUctx_st* current = nullptr;
    if (library.ctx_get_current(&current) == result::success && current == context) [[likely]]
      return;
    status_ = library.ctx_push_current(context);
    pushed_ = status_ == result::success;
  }
  context_guard(const context_guard&) = delete;
  context_guard& operator=(const context_guard&) = delete;
  ~context_guard() {
    if (pushed_) [[unlikely]] {
      CUctx_st* popped = nullptr;
      library_.ctx_pop_current(&popped);
    }
  }

  /// Not success when the context cannot be made current: it was destroyed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  const api& library_;
  int status_ = result::success;
  bool pushed_ = false;
};

/// Lets the calling thread load modules and allocate while streams are captured, without ending the capture.
class relaxed_capture {
 public:
  explicit relaxed_capture(const api& library) noexcept : library_{library} {
    exchanged_ = library_.thread_exchange_stream_capture_mode(&mode_) == result::success;
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

/// Whether it is the null stream (0), CU_STREAM_LEGACY (1) or CU_STREAM_PER_THREAD (2). These belong to
/// whichever context is current. Handles of other streams are addresses.
[[nodiscard]] inline bool is_default(stream on) noexcept {
  return reinterpret_cast<std::uintptr_t>(on.handle()) <= 2;
}

namespace detail {

/// The context of a stream that is no default stream. A green context's stream belongs to its device's
/// primary context.
[[nodiscard]] inline int context_of(const api& library, stream on, CUctx_st** context) noexcept {
  auto* const handle = static_cast<CUstream_st*>(on);
  CUgreenCtx_st* green = nullptr;
  return library.stream_get_ctx_v2 != nullptr ? library.stream_get_ctx_v2(handle, context, &green)
                                              : library.stream_get_ctx(handle, context);
}

}  // namespace detail

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
