// SPDX-License-Identifier: MIT
// Temporary device memory of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

/// Device memory for a call's temporary buffers, aligned to 256 bytes. Without it the device gives it, in
/// stream order, for the time of the call.
struct workspace {
  void* address = nullptr;
  std::size_t bytes = 0;
};

namespace detail {

[[noreturn, gnu::cold]] inline void fail_workspace(const operator_description& op, std::size_t given,
                                                   std::size_t needed) {
  throw call_error{error_code::invalid_argument,
                   std::string{op.name} + ": the workspace has " + std::to_string(given) + " bytes; " +
                       std::to_string(needed) + ", aligned to " + std::to_string(workspace_alignment) +
                       ", are needed. workspace_bytes() tells how many"};
}

/// A call's workspace: the caller's, or a source's for as long as the object lives.
class scratch {
 public:
  /// Throws driver_error out_of_memory, call_error invalid_argument for a workspace that does not suffice.
  scratch(memory_source& source, const operator_description& op, std::size_t bytes, workspace given,
          stream launch_stream)
      : source_{source}, stream_{launch_stream}, address_{given.address} {
    if (bytes == 0) return;
    if (given.address == nullptr) {
      address_ = owned_ = source.allocate(bytes, launch_stream);
      if (address_ != nullptr) return;
      const device_driver& driver = source.driver_of_memory();
      if (!driver.owns(launch_stream)) fail_foreign(op, driver);
      throw driver_error{error_code::out_of_memory,
                         std::string{op.name} + ": the device has no " + std::to_string(bytes) +
                             " bytes for the workspace; free memory, or pass a workspace of your own"};
    }
    if (given.bytes < bytes || reinterpret_cast<std::uintptr_t>(given.address) % workspace_alignment != 0)
      fail_workspace(op, given.bytes, bytes);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    if (owned_ != nullptr) source_.release(owned_, stream_);
  }
  [[nodiscard]] const void* address() const noexcept { return address_; }
  [[nodiscard]] std::byte* at(const workspace_buffer& buffer) const noexcept {
    return static_cast<std::byte*>(address_) + buffer.offset;
  }

 private:
  memory_source& source_;
  stream stream_;
  void* address_;
  void* owned_ = nullptr;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
