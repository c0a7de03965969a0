// SPDX-License-Identifier: MIT
// The largest step: buffers have room for it.
#pragma once

#include <cstdint>

namespace llm {

struct step_limits {
  std::int64_t tokens = 512;
  std::int64_t sequences = 16;
  std::int64_t pages = 0;  ///< of one sequence
};

}  // namespace llm
