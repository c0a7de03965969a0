// SPDX-License-Identifier: MIT
// A program's own allocator for temporary device memory: used for the workspace of calls that are given none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

/// Functions that give device memory for the time of a call, in stream order: what was released is used by
/// work that was put into the stream before. An address is aligned to 256 bytes; null: there is none left,
/// and the call fails with driver_error out_of_memory. Any thread may call; neither may call the library.
/// Valid as long as the catalog's dispatchers.
struct memory_hooks {
  void* (*allocate)(void* context, std::size_t bytes, const device_properties& device,
                    stream on) noexcept = nullptr;
  void (*release)(void* context, void* address, const device_properties& device,
                  stream on) noexcept = nullptr;
  void* context = nullptr;

  explicit operator bool() const noexcept { return allocate != nullptr && release != nullptr; }
};

namespace detail {

class hooked_memory final : public memory_source {
 public:
  /// The driver outlives it.
  hooked_memory(const memory_hooks& hooks, const device_driver& driver) noexcept
      : hooks_{hooks}, driver_{driver} {}

  /// Throws call_error invalid_argument for an address that is not aligned.
  [[nodiscard]] void* allocate(std::size_t bytes, stream on) override {
    void* const out = hooks_.allocate(hooks_.context, bytes, driver_.properties(), on);
    if (reinterpret_cast<std::uintptr_t>(out) % workspace_alignment == 0) return out;
    release(out, on);
    throw call_error{error_code::invalid_argument,
                     "catalog_options::memory gave an address that is not aligned to " +
                         std::to_string(workspace_alignment) + " bytes"};
  }
  void release(void* address, stream on) noexcept override {
    hooks_.release(hooks_.context, address, driver_.properties(), on);
  }
  [[nodiscard]] const device_driver& driver_of_memory() const noexcept override { return driver_; }

 private:
  memory_hooks hooks_;
  const device_driver& driver_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
