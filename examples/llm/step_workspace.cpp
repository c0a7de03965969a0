// SPDX-License-Identifier: MIT
#include "step_workspace.hpp"

#include <algorithm>

#include <switchyard/error.hpp>

namespace llm {

switchyard::workspace step_workspace::fit(std::size_t bytes) {
  if (bytes == 0) return {};
  if (memory_.empty() || memory_.back().bytes() < bytes) {
    if (device_.driver()->capturing(stream_)) {
      throw switchyard::driver_error{switchyard::error_code::load_during_capture,
                                     "a call needs a larger workspace than before the capture"};
    }
    constexpr std::size_t least = std::size_t{1} << 20U;
    const std::size_t doubled = memory_.empty() ? least : 2 * memory_.back().bytes();
    memory_.emplace_back(device_, std::max(bytes, doubled));
  }
  return {memory_.back().data(), memory_.back().bytes()};
}

}  // namespace llm
