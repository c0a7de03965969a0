// SPDX-License-Identifier: MIT
// The bodies of launch_limits.hpp.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/hardware/launch_limits.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::string explain_scratch(std::uint32_t bytes) {
  return "a block would take " + std::to_string(bytes) +
         " bytes of scratch memory; the host backend gives a thread at most " +
         std::to_string(max_host_scratch_bytes);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
