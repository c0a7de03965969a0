// SPDX-License-Identifier: MIT
// Decoding on Hopper where the values are the first columns of the keys (multi-head latent attention): 576
// columns of one KV head, of which 512 are values. Semantics: operators/attention_decode.hpp.
//
//   latent_decode  has 64 query rows a block: queries times heads. All keys of all sequences, in pairs of
//                  blocks of 64, are dealt evenly to the blocks of a row tile, whatever the lengths
//   latent_join    joins the parts of sequences that several blocks had
//
// Two warpgroups share a block's rows, and take its blocks of keys in turns: in its turn one multiplies the
// queries by a block and makes the weights, and both sum 256 of the 512 columns of each block's values. The
// weights are in the registers of one and come to the other through shared memory. That holds the queries and
// two blocks of keys, no more: the weights take the place of the keys' last panel, which is no value and has
// been multiplied by then. A half of a block is refilled as soon as it has been multiplied.
//
// Splitting the columns of the result is FlashMLA's idea; the division of the keys is that of Flash-Decoding
// (Dao et al., 2023).
#include "hopper_latent_consumer.hpp"
#include "hopper_latent_plan.hpp"

namespace hopper {

namespace latent {

/// What one of four warps that copy keys does: a part of one of the two blocks of a pair.
template <class T>
__device__ __forceinline__ void produce(const tensor_map& map, const call& c, barriers bars, u32 shared,
                                        int warp) {
  const deal dealt{c};
  const int lane = dealt.lane;
  const int block = warp / 2;
  const int part = warp % 2;
  const bool low = (block == 0) == (part == own);  // which half of the values
  const i32 box_rows = min(c.page_size, keys);
  const i32 boxes = keys / box_rows;  // of a panel, a power of two
  const int shift = sy::ptx::floor_log2(boxes);
  const i32 count = (part == own ? half_panels : half_panels + 1) << shift;
  const u32 full = bars.full(block, part);
  const u32 empty = bars.empty(block, part);
  const u32 to = shared + at_keys + static_cast<u32>(block) * tile_bytes;
  u32 phase = 1;
  share work{dealt, static_cast<i32>(blockIdx.x)};
  const bool plans = warp == 0 && blockIdx.y == 0;
  if (plans && lane < 2) c.plan[2 * blockIdx.x + lane] = make_int4(-1, 0, 0, 0);
  for (; work.left(); work.advance(dealt)) {
    const i32* const table =
        c.block_table != nullptr ? c.block_table + work.b * c.block_table_stride : nullptr;
    // Where box row `lane` of a pair's block lies: looked up a pair early.
    const auto page_of = [&](i32 pair) {
      const i32 key = (2 * pair + block) * keys + lane * box_rows;
      if (table == nullptr) return work.b;
      return lane < boxes && key < work.keys ? __ldg(table + key / c.page_size) : 0;
    };
    i32 pages = page_of(work.begin);
    for (i32 pair = work.begin; pair < work.end; ++pair) {
      const i32 next_pages = pair + 1 < work.end ? page_of(pair + 1) : 0;
      const i32 left = max(work.keys - (2 * pair + block) * keys, 0);
      const i32 there = min((left + box_rows - 1) / box_rows, boxes);
      wait(empty, phase);
      phase ^= 1;
      if (lane == 0) arrive_expecting(full, static_cast<u32>((count >> shift) * there * box_rows) * 128);
      __syncwarp();
      const i32 first = (2 * pair + block) * keys;
      const i32 token = c.page_size <= keys ? 0 : first % c.page_size;
      for (i32 at = 0; at < count; at += 32) {
        const i32 box = at + lane;
        const i32 row = box & (boxes - 1);
        const i32 page = __shfl_sync(~0U, pages, row);
        if (box >= count || row >= there) continue;
        const i32 inside = box >> shift;
        const i32 panel = inside == half_panels ? panels - 1 : inside + (low ? 0 : half_panels);
        copy_box(to + static_cast<u32>(panel) * panel_bytes + static_cast<u32>(row * box_rows) * 128, map,
                 full, panel * 64, token, 0, page);
      }
      __syncwarp();
      pages = next_pages;
    }
    if (plans && !work.whole()) plan_join(dealt, work);
  }
  if (warp == 3 && (c.seqused_k != nullptr || c.seqlen_k == 0)) clear_empty<T>(dealt);
}

/// The grid is [blocks, row tiles].
template <class T>
__device__ __forceinline__ void decode(const tensor_map& map, const call& c) {
  extern __shared__ __align__(1024) char memory[];
  const u32 shared = shared_address(memory);
  const barriers bars{shared + at_barriers};
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
    prefetch(map);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int part = own; part <= other; ++part) {
        init_barrier(bars.full(block, part), 1);
        init_barrier(bars.empty(block, part), 4);
      }
    }
    fence_barrier_init();
  }
  __syncthreads();
  sy::ptx::wait_for_previous_launch();
  if (warpgroup == 2) {
    give_registers<40>();
    produce<T>(map, c, bars, shared, static_cast<int>(threadIdx.x) / 32 - 8);
  } else if (warpgroup == 0) {
    take_registers<232>();
    consumer<T, 0>{c, bars, shared}.run();
  } else {
    take_registers<232>();
    consumer<T, 1>{c, bars, shared}.run();
  }
  sy::ptx::allow_next_launch();  // at the end: blocks that wait where this launch has ended cost it
}

}  // namespace latent

}  // namespace hopper

#define LATENT_DECODE(name, T)                                                                               \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                       \
      name(const __grid_constant__ hopper::tensor_map map, const __grid_constant__ hopper::latent::call c) { \
    hopper::latent::decode<T>(map, c);                                                                       \
  }
