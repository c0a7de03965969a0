// SPDX-License-Identifier: MIT
// Rounding to e4m3 as base/float8.hpp defines it, on any device: to nearest, ties to even, and what is larger
// than 448 becomes 448.
#pragma once

#include "portable.hpp"

namespace sy {

/// An element of e4m3 tensors: storage only.
struct f8_e4m3 {
  unsigned char bits;
};

__device__ __forceinline__ void from_float(float x, f8_e4m3& out) {
  const u32 bits = __builtin_bit_cast(u32, x);
  const u32 magnitude = bits & 0x7FFFFFFFU;
  // Three of 23 bits of mantissa are kept, and the bias of the exponent is 7, not 127.
  const u32 normal = ((magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U)) >> 20U) - (120U << 3U);
  // A unit in the last place of 2^14 is the smallest number, 2^-9: the addition rounds to units.
  const u32 subnormal = __builtin_bit_cast(u32, as_float(magnitude) + 0x1p14F) - 0x46800000U;
  u32 result = magnitude < 0x3C800000U ? subnormal : normal;  // 2^-6
  if (magnitude >= 0x43E80000U) result = 0x7EU;               // 464, from where rounding would leave 448
  if (magnitude > 0x7F800000U) result = 0x7FU;
  out.bits = static_cast<unsigned char>((bits >> 24U & 0x80U) | result);
}

}  // namespace sy
