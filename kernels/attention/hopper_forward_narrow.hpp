// SPDX-License-Identifier: MIT
// Attention forward on Hopper: keys and values in e4m3. The copy engine brings bytes; the three warps beside
// the one that feeds turn each block into one of the products' type, in the stages that the consumers read.
#pragma once

#include "hopper_e4m3_numbers.hpp"
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
