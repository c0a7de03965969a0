// SPDX-License-Identifier: MIT
// The bodies of why_absent.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/why_absent.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD std::string why_absent(std::string_view target) {
  try {
    if (target.starts_with("cuda ")) static_cast<void>(cuda::count());
    if (target.starts_with("hip ")) static_cast<void>(hip::count());
  } catch (const driver_error& problem) {
    const std::string words = problem.what();
    const std::size_t code = words.find("] ");  // the call's own error has a number
    return words.substr(code == std::string::npos ? 0 : code + 2);
  }
  return {};
}

}  // namespace v0
}  // namespace switchyard
