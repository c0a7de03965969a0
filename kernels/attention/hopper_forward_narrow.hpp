// Attention forward on Hopper: keys and values in e4m3. The copy engine brings bytes; the three warps beside
// the one that feeds turn each block into one of the products' type, in the stages that the consumers read.
#pragma once

#include "hopper_forward_tiles.hpp"

namespace hopper {

/// Warps that widen blocks.
inline constexpr int widening_warps = 3;

/// What a block in e4m3 holds; none: no block is left.
enum class block_kind : u32 { keys, values, none };

__device__ __forceinline__ void store_shared(u32 address, u32 word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ uint4 load_shared_four(u32 address) {
  uint4 out;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "r"(address)
               : "memory");
  return out;
}

__device__ __forceinline__ void store_shared_four(u32 address, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Four numbers of e4m3 as two pairs of f16.
__device__ __forceinline__ void widen(u32 bytes, u32& low, u32& high, __half) {
  asm("{\n.reg .b16 a, b;\n"
      "mov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\n"
      "cvt.rn.f16x2.e4m3x2 %1, b;\n}\n"
      : "=r"(low), "=r"(high)
      : "r"(bytes));
}

/// The same as pairs of bf16. In place, a number is 2^-120 of its value, subnormals included.
__device__ __forceinline__ void widen(u32 bytes, u32& low, u32& high, __nv_bfloat16) {
  const auto pair = [](u32 in_place) {  // the bytes as the upper ones of two halves
    const u32 small = (in_place & 0x80008000U) | ((in_place >> 4) & 0x07f007f0U);
    u32 out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(small), "r"(0x7b807b80U), "r"(0x80008000U));
    return out;
  };
  low = pair(__byte_perm(bytes, 0, 0x1404));
  high = pair(__byte_perm(bytes, 0, 0x3424));
  // The largest pattern is NaN.
  const u32 nan = ((bytes & 0x7f7f7f7fU) + 0x01010101U) & 0x80808080U;
  if (nan != 0) {
    if (nan & 0x00000080U) low |= 0x00007fffU;
    if (nan & 0x00008000U) low |= 0x7fff0000U;
    if (nan & 0x00800000U) high |= 0x00007fffU;
    if (nan & 0x80000000U) high |= 0x7fff0000U;
  }
}

/// Widens a block: rows of Dim bytes become panels of 128-byte rows with the 128-byte swizzle.
template <class Shape>
__device__ __forceinline__ void widen_block(u32 from, u32 to, int thread) {
  constexpr int in_row = Shape::dim / 16;  // pieces of 16 numbers
  constexpr int threads = 32 * widening_warps;
#pragma unroll 2
  for (int i = thread; i < Shape::keys * in_row; i += threads) {
    const uint4 bytes = load_shared_four(from + static_cast<u32>(i) * 16);
    const u32 row = static_cast<u32>(i / in_row);
    const u32 piece = static_cast<u32>(i % in_row);
    const u32 base = to + piece / 4 * Shape::panel_k + row * 128;
    u32 first[4];
    u32 second[4];
    widen(bytes.x, first[0], first[1], typename Shape::type{});
    widen(bytes.y, first[2], first[3], typename Shape::type{});
    widen(bytes.z, second[0], second[1], typename Shape::type{});
    widen(bytes.w, second[2], second[3], typename Shape::type{});
    const u32 chunk = 2 * (piece % 4);
    const u32 swizzle = row & 7;
    // Every other panel's in the other order, so that eight threads write to all banks.
    if (piece & 4) {
      store_shared_four(base + (((chunk + 1) ^ swizzle) << 4), second);
      store_shared_four(base + ((chunk ^ swizzle) << 4), first);
    } else {
      store_shared_four(base + ((chunk ^ swizzle) << 4), first);
      store_shared_four(base + (((chunk + 1) ^ swizzle) << 4), second);
    }
  }
}

/// What the three warps do.
template <class Shape>
__device__ __forceinline__ void widen_blocks(barriers<Shape> bars, u32 shared) {
  const int thread = static_cast<int>(threadIdx.x) - 32;
  ring<Shape::narrow_stages> at_narrow;
  ring<Shape::stages> at_k, at_v;
  const auto take = [&](ring<Shape::stages>& at, u32 full, u32 empty, u32 to) {
    wait(empty, at.phase ^ 1);
    widen_block<Shape>(shared + Shape::at_narrow + static_cast<u32>(at_narrow.stage) * Shape::bytes_narrow,
                       to, thread);
    fence_async_proxy();
    __syncwarp();
    if (thread % 32 == 0) {
      arrive(full);
      arrive(bars.empty_narrow(at_narrow.stage));
    }
    at.advance();
    at_narrow.advance();
  };
#pragma unroll 1
  while (true) {
    wait(bars.full_narrow(at_narrow.stage), at_narrow.phase);
    u32 kind;
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(kind)
                 : "r"(shared + Shape::at_kinds + static_cast<u32>(at_narrow.stage) * 4)
                 : "memory");
    if (kind == static_cast<u32>(block_kind::none)) return;
    if (kind == static_cast<u32>(block_kind::keys)) {
      take(at_k, bars.full_k(at_k.stage), bars.empty_k(at_k.stage),
           shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k);
    } else {
      take(at_v, bars.full_v(at_v.stage), bars.empty_v(at_v.stage),
           shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v);
    }
  }
}

}  // namespace hopper
