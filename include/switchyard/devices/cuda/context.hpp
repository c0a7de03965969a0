// Makes a context current for a scope, and lets a thread load code while a stream is being captured.
#pragma once

#include <switchyard/devices/cuda/api.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// Has `context` current on the calling thread until the end of the scope. Where it is current already, as in
/// an engine's own thread, only asks.
class context_guard {
 public:
  context_guard(const api& driver, CUctx_st* context) noexcept : driver_{driver} {
    CUctx_st* current = nullptr;
    if (driver.ctx_get_current(&current) == result::success && current == context) [[likely]]
      return;
    status_ = driver.ctx_push_current(context);
    pushed_ = status_ == result::success;
  }
  context_guard(const context_guard&) = delete;
  context_guard& operator=(const context_guard&) = delete;
  ~context_guard() {
    if (pushed_) [[unlikely]] {
      CUctx_st* popped = nullptr;
      driver_.ctx_pop_current(&popped);
    }
  }

  /// Not success when the context cannot be made current: it was destroyed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  const api& driver_;
  int status_ = result::success;
  bool pushed_ = false;
};

/// Lets the calling thread load modules and allocate while streams are captured, without ending the capture.
class relaxed_capture {
 public:
  explicit relaxed_capture(const api& driver) noexcept : driver_{driver} {
    exchanged_ = driver_.thread_exchange_stream_capture_mode(&mode_) == result::success;
  }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;
  ~relaxed_capture() {
    if (exchanged_) driver_.thread_exchange_stream_capture_mode(&mode_);
  }

 private:
  const api& driver_;
  int mode_ = capture::relaxed;
  bool exchanged_ = false;
};

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
