// SPDX-License-Identifier: MIT
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

__device__ __forceinline__ uint2 load_shared_two(u32 address) {
  uint2 out;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(out.x), "=r"(out.y) : "r"(address) : "memory");
  return out;
}

__device__ __forceinline__ void store_shared_four(u32 address, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

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

/// Widens a block: rows of Dim bytes become panels of 128-byte rows with the 128-byte swizzle. A thread takes
/// pieces of 16 numbers at one place of every so many rows.
template <class Shape>
__device__ __forceinline__ void widen_block(u32 from, u32 to, int thread) {
  constexpr int threads = 32 * widening_warps;
  constexpr int in_row = Shape::dim / 16;
  constexpr int pieces = Shape::keys * in_row;
  constexpr int together = 4;  // loads under way
  static_assert(threads % in_row == 0);
  const u32 piece = static_cast<u32>(thread % in_row);
  // Every other panel's second half goes first, so that eight threads write to all banks.
  const u32 odd = piece / 4 % 2;
  const u32 chunk = 2 * (piece % 4) + odd;
  u32 row = static_cast<u32>(thread / in_row);
  from += static_cast<u32>(thread) * 16 + odd * 8;
  to += piece / 4 * Shape::panel_k + row * 128;
#pragma unroll 1
  for (int i = thread; i < pieces; i += together * threads) {
    uint2 bytes[together][2];
#pragma unroll
    for (int j = 0; j < together; ++j) {
      if (i + j * threads >= pieces) continue;
      bytes[j][0] = load_shared_two(from + j * threads * 16);
      bytes[j][1] = load_shared_two((from + j * threads * 16) ^ 8);
    }
#pragma unroll
    for (int j = 0; j < together; ++j) {
      if (i + j * threads >= pieces) continue;
      const u32 at = to + j * (threads / in_row) * 128;
      const u32 swizzled = (chunk ^ (row + j * (threads / in_row))) & 7;
      u32 words[4];
      widen(bytes[j][0], words, typename Shape::type{});
      store_shared_four(at + (swizzled << 4), words);
      widen(bytes[j][1], words, typename Shape::type{});
      store_shared_four(at + ((swizzled ^ 1) << 4), words);
    }
    from += together * threads * 16;
    to += together * (threads / in_row) * 128;
    row += together * (threads / in_row);
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
