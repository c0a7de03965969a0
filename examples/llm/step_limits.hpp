// SPDX-License-Identifier: MIT
// The sizes of the largest step, for which buffers are allocated.
#pragma once

#include <cstdint>

namespace llm {

struct step_limits {
  std::int64_t tokens = 512;
  std::int64_t sequences = 16;
  std::int64_t pages = 0;  ///< of one sequence
};

}  // namespace llm
