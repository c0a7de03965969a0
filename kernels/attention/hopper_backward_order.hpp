// SPDX-License-Identifier: MIT
// Attention backward on Hopper with the same bits in every run: the blocks of keys that see a tile of queries
// add to its dq in a fixed order. Each tile has a number in memory, how many have added; a block waits for
// its own. One thread of each block does the adding; the warpgroups wait for it only where it is a step
// behind.
//
// Under a causal mask the later keys come first, which reach a tile of queries first; FlashAttention-4 takes
// them in that order as well. Blocks are dealt in the order in which they add: none waits for one that no SM
// has begun.
#pragma once

#include "hopper_backward_tiles.hpp"

namespace hopper {

/// Waits until a number in memory is `value`, and sees what was done before it was set so.
__device__ __forceinline__ void wait_for_number(const i32* at, i32 value) {
  i32 found;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(found) : "l"(at) : "memory");
  } while (found != value);
}

__device__ __forceinline__ void publish_number(i32* at, i32 value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/// Orders ordinary accesses of global memory and those of the copy engine.
__device__ __forceinline__ void fence_global_async_proxy() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// How many blocks of keys add to a tile of queries before this one, which sees it. Where a causal mask gives
/// later keys fewer queries, they come first: they reach a tile of queries earlier.
template <class Shape>
__device__ __forceinline__ i32 turn_of(const backward_problem& p, const key_tile& t, i32 tile) {
  const i32 block = t.begin / Shape::keys;
  const i32 first = tile * Shape::queries;
  if (p.right < 1 << 29) {
    const i32 last = min(first + Shape::queries, t.queries) - 1;
    return min(last + t.diagonal + p.right, t.keys - 1) / Shape::keys - block;
  }
  return block - max(first - p.left + t.diagonal, 0) / Shape::keys;
}

/// Adds the dq that the warpgroups lay down to its sums, each in its turn. One thread.
template <class Shape>
__device__ __forceinline__ void add_in_turn(const backward_problem& p, backward_barriers<Shape> bars,
                                            unsigned char* memory) {
  constexpr u32 bytes = Shape::queries * Shape::dim * 4;
  static_assert(bytes == 8 * Shape::share::warp_bytes, "the warps' shares lie as the sums do");
  const auto* const places = reinterpret_cast<const key_tile*>(memory + Shape::at_tiles);
  i32* const turns = p.next_tile + 1;  // [batch, heads, tiles of queries], zeroed
  ring<2> at_tile;
  u32 phase = 0;
  while (true) {
    wait(bars.full_tile(at_tile.stage), at_tile.phase);
    const key_tile& t = places[at_tile.stage];
    const i32 steps = t.steps;
    if (steps < 0) return;
    query_walk walk{t};
    for (i32 step = 0; step < steps; ++step) {
      const i32 turn = turn_of<Shape>(p, t, walk.at);
      wait_for_number(turns + walk.over_heads, turn);
      wait(bars.full_sums(), phase);
      fence_global_async_proxy();
      add_floats(p.dq_sum + static_cast<i64>(walk.over_heads) * (Shape::queries * Shape::dim),
                 shared_address(memory) + Shape::at_dq, bytes);
      commit_bulk_group();
      wait_bulk_reads();
      arrive(bars.empty_sums());
      phase ^= 1;
      wait_bulk_groups();
      fence_global_async_proxy();
      publish_number(turns + walk.over_heads, turn + 1);
      walk.advance(p.rows / Shape::queries);
    }
    arrive(bars.empty_tile(at_tile.stage));
    at_tile.advance();
  }
}

}  // namespace hopper
