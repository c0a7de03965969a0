// SPDX-License-Identifier: MIT
// Four neighbours of 16 bits, which are read and written at once.
#pragma once

#include "../../../kernels/gpu/portable.hpp"

namespace sy {

struct alignas(8) half_quad {
  u16 part[4];
};

template <class T>
[[nodiscard]] __device__ __forceinline__ half_quad rounded_halves(const float (&values)[4]) {
  half_quad all;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    T rounded;
    from_float(values[e], rounded);
    all.part[e] = rounded.bits;
  }
  return all;
}

}  // namespace sy
