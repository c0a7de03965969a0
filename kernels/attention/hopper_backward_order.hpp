// SPDX-License-Identifier: MIT
// Attention backward on Hopper with the same bits in every run: the blocks of keys that see a tile of queries
// add to its dq in a fixed order. Each tile has a number in memory, how many have added; a block waits for
// its own. One thread of each block does the adding; the warpgroups wait for it only where it is a step
// behind.
//
// Blocks are dealt in the order in which they add: none waits for one that no SM has begun. There are two
// orders. Under a causal mask the later keys may come first, which reach a tile of queries first, as in
// FlashAttention-4; the tiles of keys that see most queries then end the call. Or the keys come in ascending
// order and the queries from the last (`Shape::back`): all blocks begin with queries that all keys see, one
// behind the other, and the longest are dealt first. There, query heads that share keys may be different
// blocks, which write dk and dv one after the other.
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
/// later keys fewer queries, they come first: they reach a tile of queries earlier. Not where queries are
/// taken from the last.
template <class Shape>
__device__ __forceinline__ i32 turn_of(const backward_problem& p, const key_tile& t, i32 tile) {
  const i32 block = t.begin / Shape::keys;
  const i32 first = tile * Shape::queries;
  if (!Shape::back && p.right < 1 << 29) {
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
    query_walk<Shape::back> walk{t};
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

/// The same where warps add from registers: tells them that their turn has come, and passes it on once all
/// have added. One thread.
template <class Shape>
__device__ __forceinline__ void call_in_turn(const backward_problem& p, backward_barriers<Shape> bars,
                                             unsigned char* memory) {
  const auto* const places = reinterpret_cast<const key_tile*>(memory + Shape::at_tiles);
  i32* const turns = p.next_tile + 1;
  ring<2> at_tile;
  u32 phase = 0;
  while (true) {
    wait(bars.full_tile(at_tile.stage), at_tile.phase);
    const key_tile& t = places[at_tile.stage];
    const i32 steps = t.steps;
    if (steps < 0) return;
    query_walk<Shape::back> walk{t};
    for (i32 step = 0; step < steps; ++step) {
      const i32 turn = turn_of<Shape>(p, t, walk.at);
      wait_for_number(turns + walk.over_heads, turn);
      arrive(bars.full_sums());
      wait(bars.empty_sums(), phase);
      phase ^= 1;
      publish_number(turns + walk.over_heads, turn + 1);
      walk.advance(p.rows / Shape::queries);
    }
    arrive(bars.empty_tile(at_tile.stage));
    at_tile.advance();
  }
}

/// Blocks that have query heads of the same keys write dk and dv one after the other: the first stores sums,
/// each adds to them, and the last rounds them. A warp has a number in memory for each tile of keys and KV
/// head, how many have written. Earlier blocks come first, so that none waits for one that has not begun.
template <class Shape>
struct group_turn {
  i32* number;
  i64 row;  ///< of the sums: the tile's first key
  i32 turn, turns;

  /// `warp`: of all that write a tile of keys.
  __device__ __forceinline__ group_turn(const backward_problem& p, const key_tile& t, int warp) {
    const i32 tiles = p.rows / Shape::queries;
    const i32 group = p.heads / p.heads_kv;
    const i32 head = t.sums / tiles;  // counted over the batch, as KV heads below
    const i32 head_kv = head / group;
    turns = group / p.members;
    turn = (head - head_kv * group) / p.members;
    row = static_cast<i64>(head_kv) * p.rows_k + t.begin;
    number = p.next_tile + 1 + static_cast<i64>(p.batch) * p.heads * tiles + (row / Shape::keys * 8 + warp);
  }

  [[nodiscard]] __device__ __forceinline__ bool is_last() const { return turn + 1 == turns; }

  __device__ __forceinline__ void wait() const {
    // All lanes: where one waits for them, ptxas spills what the loop over queries needs.
    if (turn > 0) wait_for_number(number, turn);
  }

  /// Adds what those before have to this thread's part, and stores it for the next one. `warp`: of those
  /// that have this gradient.
  template <int Count>
  __device__ __forceinline__ void add(float (&d)[Count], float* sums, int warp) const {
    auto* const at = reinterpret_cast<float4*>(sums + row * (2 * Count)) + warp * (8 * Count) + lane_now();
    if (turn > 0) {
#pragma unroll
      for (int i = 0; i < Count / 4; ++i) {
        const float4 before = __ldcg(at + 32 * i);
        d[4 * i] += before.x;
        d[4 * i + 1] += before.y;
        d[4 * i + 2] += before.z;
        d[4 * i + 3] += before.w;
      }
    }
    if (is_last()) return;
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
      __stcg(at + 32 * i, make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]));
    }
  }

  /// Lets the next one write.
  __device__ __forceinline__ void pass() const {
    if (is_last()) return;
    __syncwarp();
    if (lane_now() == 0) publish_number(number, turn + 1);
  }
};

}  // namespace hopper
