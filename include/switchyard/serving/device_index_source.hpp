// SPDX-License-Identifier: MIT
// Copies a call's tensors of indices from its device, for checked mode. Each copy waits for what is before it
// on the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/plans/call_errors.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class device_index_source final : public index_source {
 public:
  device_index_source(const operator_description& op, device_driver& driver, stream on) noexcept
      : op_{op}, driver_{driver}, stream_{on} {}

  [[nodiscard]] const void* read(const void* address, std::size_t bytes, const std::string& name) override {
    std::vector<std::uint64_t>& copy = copies_.emplace_back((bytes + 7) / 8);  // aligned for every number
    status result = driver_.copy(copy.data(), address, bytes, stream_);
    if (result == 0) result = driver_.synchronize(stream_);
    if (result != 0) fail(name, result);
    return copy.data();
  }

 private:
  [[noreturn]] void fail(const std::string& name, status result) const {
    if (!driver_.owns(stream_)) fail_foreign(op_, driver_);
    throw driver_error{error_code::driver_failed,
                       std::string{op_.name} + ": checked mode cannot read " + name + ": " +
                           driver_.describe(result) +
                           "; it is no tensor of this device, or work before this call has failed"};
  }

  const operator_description& op_;
  device_driver& driver_;
  stream stream_;
  std::vector<std::vector<std::uint64_t>> copies_;  // moved, they keep their addresses
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
