// SPDX-License-Identifier: MIT
// Attention on Hopper: numbers of e4m3 as numbers of 16 bits, which hold each of them exactly.
#pragma once

#include "hopper_ptx.hpp"

namespace hopper {

/// Eight numbers of e4m3 as four pairs of f16.
__device__ __forceinline__ void widen(uint2 bytes, u32 (&words)[4], __half) {
  const auto four = [](u32 from, u32& low, u32& high) {
    asm("{\n.reg .b16 a, b;\n"
        "mov.b32 {a, b}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, a;\n"
        "cvt.rn.f16x2.e4m3x2 %1, b;\n}\n"
        : "=r"(low), "=r"(high)
        : "r"(from));
  };
  four(bytes.x, words[0], words[1]);
  four(bytes.y, words[2], words[3]);
}

/// The same as pairs of bf16. In place, a number is 2^-120 of its value, subnormals included.
__device__ __forceinline__ void widen(uint2 bytes, u32 (&words)[4], __nv_bfloat16) {
  const auto pair = [](u32 in_place) {  // the bytes as the upper ones of two halves
    const u32 small = (in_place & 0x80008000U) | ((in_place >> 4) & 0x07f007f0U);
    u32 out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(small), "r"(0x7b807b80U), "r"(0x80008000U));
    return out;
  };
  words[0] = pair(__byte_perm(bytes.x, 0, 0x1404));
  words[1] = pair(__byte_perm(bytes.x, 0, 0x3424));
  words[2] = pair(__byte_perm(bytes.y, 0, 0x1404));
  words[3] = pair(__byte_perm(bytes.y, 0, 0x3424));
  // The largest pattern is NaN: bit 7 of its byte.
  const u32 nan_x = (bytes.x & 0x7f7f7f7fU) + 0x01010101U;
  const u32 nan_y = (bytes.y & 0x7f7f7f7fU) + 0x01010101U;
  if ((nan_x | nan_y) & 0x80808080U) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 nan = (i < 2 ? nan_x : nan_y) >> (i % 2 * 16);
      if (nan & 0x0080U) words[i] |= 0x00007fffU;
      if (nan & 0x8000U) words[i] |= 0x7fff0000U;
    }
  }
}

__device__ __forceinline__ void convert(uint2 bytes, u32 (&words)[4], __half) {
  widen(bytes, words, __half{});
}

/// Through f16 and f32: half as many instructions as widen() takes, of units that have nothing else to do
/// here.
__device__ __forceinline__ void convert(uint2 bytes, u32 (&words)[4], __nv_bfloat16) {
  widen(bytes, words, __half{});
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 both = unpack<__half>(words[i]);
    words[i] = pack<__nv_bfloat16>(both.x, both.y);
  }
}

}  // namespace hopper
