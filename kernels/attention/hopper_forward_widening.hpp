// SPDX-License-Identifier: MIT
// Attention forward on Hopper: keys and values in e4m3 that the launch itself turns into 16 bits, each block
// once. The three warps beside the one that feeds take the keys or the values of a block from a counter, in
// about the order in which tiles read them, and write them to the workspace; who feeds waits for both.
//
// A warp waits for nobody once it has taken something, and takes what is left until nothing is. So blocks of
// threads need not run at the same time: those that run widen everything.
#pragma once

#include "hopper_e4m3_numbers.hpp"
#include "hopper_forward_tiles.hpp"

namespace hopper {

/// A count of other blocks of threads, and what they wrote before they added to it.
[[nodiscard]] __device__ __forceinline__ u32 load_acquire(const u32* from) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ void add_release(u32* to, u32 value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

/// Orders ordinary accesses to global memory and those of the copy engine.
__device__ __forceinline__ void fence_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// A warp that widens. Its part of shared memory holds where the rows of a block start, then copies under
/// way, each of 16 bytes a lane.
template <class Shape>
struct widening_warp {
  static constexpr int at_once = 16;                // copies under way
  static constexpr int in_row = Shape::dim / 16;    // lanes of a copy
  static constexpr int rows = 512 / Shape::dim;     // of a copy
  static constexpr int steps = Shape::keys / rows;  // copies of a block
  static constexpr int pieces = Shape::dim / 8;     // of a row
  static_assert(Shape::bytes_widening == Shape::keys * 8 + at_once * 512 && steps >= at_once);

  const typename Shape::problem_type& p;
  u32 starts, slots;
  i32 lane;
  u64 policy;

  __device__ __forceinline__ widening_warp(const typename Shape::problem_type& call, u32 shared)
      : p{call}, lane{static_cast<i32>(lane_now())}, policy{sy::ptx::evict_first_policy()} {
    starts = shared + Shape::at_widening + (threadIdx.x / 32 - 1) * Shape::bytes_widening;
    slots = starts + Shape::keys * 8;
  }

  /// Starts a copy. Of a row that is zeros nothing is read.
  __device__ __forceinline__ void start(const unsigned char* base, i32 step) const {
    i64 from;
    asm volatile("ld.shared.b64 %0, [%1];"
                 : "=l"(from)
                 : "r"(starts + static_cast<u32>((step * rows + lane / in_row) * 8))
                 : "memory");
    sy::ptx::copy_async(slots + static_cast<u32>(step % at_once * 512 + lane * 16),
                        base + (from < 0 ? 0 : from) + lane % in_row * 16, from >= 0, policy);
  }

  /// Widens what a copy has brought. A lane takes 8 numbers of either half, so that whole lines are written.
  __device__ __forceinline__ void finish(uint4* to, i32 step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 at = lane + 32 * half;
      const i32 row = step * rows + at / pieces;
      const i32 piece = at % pieces;
      uint2 bytes;
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                   : "=r"(bytes.x), "=r"(bytes.y)
                   : "r"(slots + static_cast<u32>(step % at_once * 512 + at * 8))
                   : "memory");
      u32 words[4];
      convert(bytes, words, typename Shape::type{});
      to[row * 8 + piece / 8 * 8 * Shape::keys + ((piece ^ row) & 7)] =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }

  __device__ __forceinline__ void widen_block(const widened_keys& keys, i32 head, i32 block,
                                              bool values) const {
    __syncwarp();  // for reads of the starts of the block before
#pragma unroll 1
    for (i32 row = lane; row < Shape::keys; row += 32) {
      const widened_row found = find_key(p.source, keys, values ? p.source.v_strides : p.source.k_strides,
                                         block * Shape::keys + row, head);
      asm volatile("st.shared.b64 [%0], %1;" ::"r"(starts + static_cast<u32>(row * 8)), "l"(found.from)
                   : "memory");
    }
    __syncwarp();
    const unsigned char* const base = values ? p.source.v : p.source.k;
#pragma unroll 1
    for (i32 step = 0; step < at_once; ++step) {
      start(base, step);
      sy::ptx::commit_copies();
    }
    const i64 index = (keys.entry * p.heads_kv + head) * p.blocks + block;
    auto* const to = static_cast<uint4*>(values ? p.source.values : p.source.keys) +
                     index * (Shape::bytes_k / sizeof(uint4));
#pragma unroll 1
    for (i32 step = 0; step < steps; ++step) {
      sy::ptx::wait_for_copies<at_once - 1>();
      __syncwarp();  // for the copies of other lanes
      finish(to, step);
      __syncwarp();  // for their reads of the slot
      if (step + at_once < steps) start(base, step + at_once);
      sy::ptx::commit_copies();
    }
    fence_async_global();
    __syncwarp();
    if (lane == 0) add_release(p.done + 1 + index, 1);
  }

  [[nodiscard]] __device__ __forceinline__ i32 take() const {
    return lane == 0 ? static_cast<i32>(atomicAdd(p.done, 1U)) : 0;
  }

  __device__ __forceinline__ void run() const {
    const i32 units = 2 * p.batch * p.heads_kv * orders_of_head(p.source, p.parts);
    i32 taken = take();
#pragma unroll 1
    while (true) {
      const i32 at = __shfl_sync(0xffffffff, taken, 0);
      if (at >= units) return;
      taken = take();  // asked for early
      const widened_unit unit = find_unit(p.source, p.items_at_once, p.parts, at);
      const widened_keys keys = keys_of_entry(p.source, unit.entry);
      const i32 block = find_block(p.source, keys, p.parts, unit.order);
      if (block >= 0) widen_block(keys, unit.head, block, unit.values);
    }
  }
};

}  // namespace hopper
