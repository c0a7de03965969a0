// SPDX-License-Identifier: MIT
// What fragment_operands.hpp needs of the device. Tests have another file of this name, for the CPU.
#pragma once

#include "../gpu/ptx.hpp"

namespace sy::stream {

using u32 = unsigned;
using i32 = int;
using i64 = long long;
using u64 = unsigned long long;
using bf16 = __nv_bfloat16;
using f16 = __half;

/// sum = a b, of 16 x 16 and 16 x 8 numbers.
template <class Number>
__device__ __forceinline__ void multiply_first(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
__device__ __forceinline__ void multiply_first<f16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}

}  // namespace sy::stream
