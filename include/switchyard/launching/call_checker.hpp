// SPDX-License-Identifier: MIT
// Checks one call of a device as checked mode checks all. Waits for the stream where a device has the
// numbers.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

class call_checker {
 public:
  explicit call_checker(device_dispatcher& core) noexcept : core_{core} {}

  /// Throws what is wrong with a call. `illegal`: what is known to be wrong with its arguments; empty:
  /// nothing.
  void check(problem_view own, const void* arguments, stream on, const std::string& illegal);

 private:
  device_dispatcher& core_;
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/call_checker_impl.hpp>
#endif
