// SPDX-License-Identifier: MIT
// A choice that a dispatcher made for calls, in words.
#pragma once

#include <string>

namespace switchyard {
inline namespace v0 {

struct made_choice {
  std::string problem;  ///< "softmax {dtype=f32 rows=4 columns=4} on NVIDIA H200"
  std::string variant;  ///< its target and id, and what identifies its blobs
};

}  // namespace v0
}  // namespace switchyard
