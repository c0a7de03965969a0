// SPDX-License-Identifier: MIT
// Ranges around calls, which profilers show beside the kernels: "softmax avx512_s4", and "softmax: plan"
// where a problem is new. While they are off, a call runs none of this code.
#pragma once

namespace switchyard {
inline namespace v0 {

/// Functions that are called when a range begins and ends. Ranges of a thread nest. Launching threads call
/// them, so both must be quick and thread-safe, and neither may call the library. They must stay valid as
/// long as the catalog and its dispatchers.
struct range_hooks {
  void (*push)(void* context, const char* name) noexcept = nullptr;
  void (*pop)(void* context) noexcept = nullptr;
  void* context = nullptr;

  explicit operator bool() const noexcept { return push != nullptr && pop != nullptr; }
};

namespace detail {

/// A range that ends with the object; none where the hooks are off or the name is null.
class scoped_range {
 public:
  scoped_range(const range_hooks& hooks, const char* name) noexcept
      : hooks_{name != nullptr && hooks ? &hooks : nullptr} {
    if (hooks_ != nullptr) hooks_->push(hooks_->context, name);
  }
  scoped_range(const scoped_range&) = delete;
  scoped_range& operator=(const scoped_range&) = delete;
  ~scoped_range() {
    if (hooks_ != nullptr) hooks_->pop(hooks_->context);
  }

 private:
  const range_hooks* hooks_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
