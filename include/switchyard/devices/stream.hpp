// SPDX-License-Identifier: MIT
// A stream of any backend, as a value.
#pragma once

#include <cstddef>

namespace switchyard {
inline namespace v0 {

/// A stream of any backend. Converts from and to CUstream, cudaStream_t and hipStream_t; the host backend
/// takes the null stream, and its launches are complete when they return.
class stream {
 public:
  constexpr stream() noexcept = default;
  constexpr stream(std::nullptr_t) noexcept {
  }  // NOLINT(google-explicit-constructor): stands for an API's handle
  template <class Handle>
  stream(Handle* handle) noexcept : handle_{handle} {}  // NOLINT(google-explicit-constructor)

  template <class Handle>
  explicit operator Handle*() const noexcept {
    return static_cast<Handle*>(handle_);
  }
  [[nodiscard]] void* handle() const noexcept { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace v0
}  // namespace switchyard
