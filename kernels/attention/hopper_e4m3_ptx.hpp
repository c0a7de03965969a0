// SPDX-License-Identifier: MIT
// Warpgroup products of e4m3 numbers with f32 sums. Layouts: PTX ISA 8.x, chapter "wgmma".
#pragma once

#include "hopper_ptx.hpp"

namespace hopper {

/// A matrix in shared memory whose rows are `RowBytes` of the summed dimension, with the swizzle of that
/// width; its address is a multiple of 1024.
template <u32 RowBytes>
__device__ __forceinline__ u64 swizzled_rows(u32 address) {
  static_assert(RowBytes == 128 || RowBytes == 64);
  constexpr u64 layout = RowBytes == 128 ? 1 : 2;
  return (layout << 62) | (u64{8 * RowBytes >> 4} << 32) | ((address & 0x3FFFF) >> 4);
}

/// A matrix in shared memory, in pieces of 8 rows by 16 bytes of the summed dimension. Pieces that follow
/// each other along the rows are 128 bytes apart, along the summed dimension `SumBytes`.
template <u32 SumBytes>
__device__ __forceinline__ u64 plain_pieces(u32 address) {
  return (u64{128 >> 4} << 32) | (u64{SumBytes >> 4} << 16) | ((address & 0x3FFFF) >> 4);
}

/// Four numbers to e4m3 in one register, the first in the lowest byte; what is larger than 448 becomes 448.
__device__ __forceinline__ u32 pack_e4m3(float a, float b, float c, float d) {
  u32 word;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(word)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return word;
}

/// d = a b^T, or d += a b^T: a is 64 x 32 and b is N x 32, both in shared memory with the summed dimension
/// innermost.
template <int N>
struct e4m3_shared_product;

/// d += a b^T: a is 64 x 32 in registers, b is N x 32 in shared memory with the summed dimension innermost.
/// Register 0 of a has four neighbours of row r of the result's layout, from column 4 (t % 4) on; register 1
/// those of row r + 8; 2 and 3 the same 16 columns on.
template <int N>
struct e4m3_register_product;

#define HOPPER_OUT_112 HOPPER_OUT_96, HOPPER_OUT_8(96), HOPPER_OUT_8(104)
#define HOPPER_NAMES_112                 \
  HOPPER_NAMES_96                        \
  ",%96,%97,%98,%99,%100,%101,%102,%103" \
  ",%104,%105,%106,%107,%108,%109,%110,%111"

#define HOPPER_E4M3_SHARED(N, COUNT, A, B, KEEP)                                                     \
  template <>                                                                                        \
  struct e4m3_shared_product<N> {                                                                    \
    __device__ __forceinline__ static void run(float (&d)[COUNT], u64 a, u64 b, bool keep) {         \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                    \
                   ", 0;\n"                                                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" HOPPER_NAMES_##COUNT \
                   "}, " A ", " B ", keep, 1, 1;\n}\n"                                               \
                   : HOPPER_OUT_##COUNT                                                              \
                   : "l"(a), "l"(b), "r"(static_cast<i32>(keep)));                                   \
    }                                                                                                \
  };

#define HOPPER_E4M3_REGISTERS(N, COUNT, A0, A1, A2, A3, B)                                           \
  template <>                                                                                        \
  struct e4m3_register_product<N> {                                                                  \
    __device__ __forceinline__ static void run(float (&d)[COUNT], const u32* a, u64 b) {             \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" HOPPER_NAMES_##COUNT \
                   "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", 1, 1, 1;\n"                          \
                   : HOPPER_OUT_##COUNT                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                            \
    }                                                                                                \
  };

HOPPER_E4M3_SHARED(64, 32, "%32", "%33", "%34")
HOPPER_E4M3_SHARED(96, 48, "%48", "%49", "%50")
HOPPER_E4M3_SHARED(128, 64, "%64", "%65", "%66")
HOPPER_E4M3_SHARED(160, 80, "%80", "%81", "%82")
HOPPER_E4M3_SHARED(192, 96, "%96", "%97", "%98")
HOPPER_E4M3_SHARED(224, 112, "%112", "%113", "%114")
HOPPER_E4M3_SHARED(256, 128, "%128", "%129", "%130")
HOPPER_E4M3_REGISTERS(64, 32, "%32", "%33", "%34", "%35", "%36")
HOPPER_E4M3_REGISTERS(128, 64, "%64", "%65", "%66", "%67", "%68")
HOPPER_E4M3_REGISTERS(256, 128, "%128", "%129", "%130", "%131", "%132")

}  // namespace hopper
