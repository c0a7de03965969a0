// SPDX-License-Identifier: MIT
// kernels/matmul/fragment_device.hpp on the CPU, a thread at a time: a thread's part of a product of tensor
// cores, for one row of x, instead of the sum over the threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include <switchyard/base/float16.hpp>

#define __device__
#define __forceinline__ inline

struct __half {
  std::uint16_t bits;
};
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __half2 {
  __half x, y;
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint3 {
  unsigned x, y, z;
};
inline thread_local uint3 threadIdx{};
using std::max;

inline void __syncwarp() {}
inline float __half2float(__half value) {
  return switchyard::f16_to_float(value.bits);
}
inline float2 __half22float2(__half2 value) {
  return {__half2float(value.x), __half2float(value.y)};
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32U | low) >> (shift & 31U));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned selector = selectors >> 4 * i & 15U;
    const auto byte =
        static_cast<unsigned>((std::uint64_t{high} << 32U | low) >> 8 * (selector & 7U) & 0xFFU);
    out |= (selector < 8 ? byte : byte < 128 ? 0U : 0xFFU) << 8 * i;
  }
  return out;
}

namespace sy {

namespace ptx {

template <class Pointer>
unsigned shared_address(Pointer pointer) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// Adds the products of outputs g and g + 8 with one row of x.
template <class Number>
void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const auto dot = [](unsigned w, unsigned x) {
    const auto half = [](unsigned bits) {
      return switchyard::f16_to_float(static_cast<std::uint16_t>(bits & 0xFFFFU));
    };
    return half(w) * half(x) + half(w >> 16U) * half(x >> 16U);
  };
  sum[0] += dot(a[0], b0) + dot(a[2], b1);
  sum[2] += dot(a[1], b0) + dot(a[3], b1);
}

}  // namespace ptx

namespace stream {

using u32 = unsigned;
using i32 = int;
using i64 = long long;
using u64 = unsigned long long;
using bf16 = __nv_bfloat16;
using f16 = __half;

template <class Number>
void multiply_first(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  for (float& value : sum) value = 0;
  ptx::multiply<Number>(sum, a, b0, b1);
}

}  // namespace stream

}  // namespace sy
