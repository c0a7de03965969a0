// SPDX-License-Identifier: MIT
// Which row an element of a matrix is in, and where: one division of what is mostly small.
#pragma once

#include "portable.hpp"

namespace sy {

struct split_index {
  i64 quotient;
  i64 rest;

  /// Of an index that is not negative, by what is positive. Division of 64 bits takes several times as long.
  __device__ __forceinline__ split_index(i64 index, i64 by) {
    if (((index | by) >> 32) == 0) {
      const u32 whole = static_cast<u32>(index) / static_cast<u32>(by);
      quotient = whole;
      rest = static_cast<u32>(index) - whole * static_cast<u32>(by);
    } else {
      quotient = index / by;
      rest = index - quotient * by;
    }
  }
};

}  // namespace sy
