// SPDX-License-Identifier: MIT
// What the two kernels of hopper_latent share: a call, its workspace, and how its keys are dealt to blocks.
#pragma once

#include "hopper_parts.hpp"

namespace hopper {

namespace latent {

inline constexpr int rows = 64;        ///< of a block
inline constexpr int keys = 64;        ///< of a block of keys
inline constexpr int columns = 512;    ///< of values
inline constexpr int panels = 9;       ///< of 64 columns; the last is not of the values
inline constexpr int half_panels = 4;  ///< of the values that a warpgroup sums
inline constexpr u32 panel_bytes = 64 * 128;
inline constexpr u32 tile_bytes = panels * panel_bytes;
inline constexpr u32 last_panel = (panels - 1) * panel_bytes;

inline constexpr u32 at_keys = tile_bytes;  ///< behind the queries
inline constexpr u32 at_maxima =
    at_keys + 2 * tile_bytes;  ///< of both warpgroups; in the end each has its sums
inline constexpr u32 at_barriers = at_maxima + 2 * rows * 4;  ///< in the place of the other's maxima
inline constexpr u32 shared_bytes = at_barriers + 64;

/// Where four results of a thread lie in a part, in units of four floats: those of the columns 8 j and 8 j +
/// 8 of one warpgroup's half, as a product leaves them.
[[nodiscard]] __device__ __forceinline__ i32 fragment_of(i32 group, i32 warp, i32 j, i32 lane) {
  return ((group * 4 + warp) * 32 + j) * 32 + lane;
}

struct call {
  const void* q;
  void* out;
  float* lse;              ///< null: not wanted
  const float* k_scale;    ///< null: 1
  const float* v_scale;    ///< null: 1
  const i32* seqused_k;    ///< null: all
  const i32* block_table;  ///< null: not paged
  float* partial;  ///< [row tiles, blocks, 2, 16384 / 4, 4]: of the first sequence of a block and the last;
                   ///< the results of 256 threads, each four a time (`fragment_of`)
  float* partial_state;  ///< [row tiles, blocks, 2, rows, 2]: largest score, to base 2, and sum
  int4* plan;  ///< [blocks, 2], for the first sequence of a block and the last: the sequence, -1 where the
               ///< block has all or nothing of it; the first and the last block that have some of it; and
               ///< whether it is the first block's last
  i64 q_stride_batch, q_stride_head, q_stride_token;
  i64 out_stride_batch, out_stride_head, out_stride_token;
  i64 lse_stride_batch, lse_stride_head;
  i64 block_table_stride;
  i32 batch, heads, seqlen_q, seqlen_k;
  i32 page_size;  ///< of dense keys more than a sequence has
  i32 causal;
  i32 blocks;  ///< of a row tile
  float scale;
};

/// How pairs of blocks of keys are dealt: those of a sequence one after the other, sequence after sequence.
struct deal {
  const call& c;
  i32 lane;
  i32 total;
  i32 blocks;      ///< that have something to do: a pair or more, if there are any
  i32 each, rest;  ///< total over blocks, and what is left

  /// All threads of a warp call these together.
  __device__ __forceinline__ explicit deal(const call& of) : c{of}, lane{static_cast<i32>(threadIdx.x) % 32} {
    total = before(c.batch);
    blocks = max(min(even_blocks(), total), 1);
    each = total / blocks;
    rest = total - each * blocks;
  }
  /// Rather a few blocks without work than all sequences, of equal lengths, divided where blocks end.
  [[nodiscard]] __device__ __forceinline__ i32 even_blocks() const {
    const i32 most = c.blocks;
    const i32 rounds = (c.batch + most - 1) / most;
    const i32 even = c.batch <= most         ? most / c.batch * c.batch
                     : c.batch % rounds == 0 ? c.batch / rounds
                                             : most;
    return 15 * even >= 14 * most ? even : most;
  }
  [[nodiscard]] __device__ __forceinline__ i32 keys_of(i32 b) const {
    return c.seqused_k != nullptr ? __ldg(c.seqused_k + b) : c.seqlen_k;
  }
  [[nodiscard]] __device__ __forceinline__ i32 pairs_of(i32 b) const {
    return (keys_of(b) + 2 * keys - 1) / (2 * keys);
  }
  /// Pairs of all sequences before this one.
  [[nodiscard]] __device__ __forceinline__ i32 before(i32 b) const {
    if (c.seqused_k == nullptr) return b * pairs_of(0);
    i32 sum = 0;
    for (i32 i = lane; i < b; i += 32) sum += pairs_of(i);
    return __reduce_add_sync(~0U, sum);
  }
  /// The first pair of a block: total * block / blocks.
  [[nodiscard]] __device__ __forceinline__ i32 first_of(i32 block) const {
    return block * each + block * rest / blocks;
  }
  /// The sequence of a pair that exists, and the pair's number in it.
  [[nodiscard]] __device__ __forceinline__ i32 sequence_of(i32 pair, i32& within) const {
    if (c.seqused_k == nullptr) {
      const i32 each = pairs_of(0);
      within = pair % each;
      return pair / each;
    }
    i32 passed = 0;
    for (i32 base = 0;; base += 32) {
      const i32 b = base + lane;
      const i32 here = b < c.batch ? pairs_of(b) : 0;
      i32 through = here;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const i32 lower = __shfl_up_sync(~0U, through, step);
        if (lane >= step) through += lower;
      }
      const u32 behind = __ballot_sync(~0U, passed + through > pair);
      if (behind != 0) {
        const int found = __ffs(static_cast<int>(behind)) - 1;
        within = pair - passed - __shfl_sync(~0U, through - here, found);
        return base + found;
      }
      passed += __shfl_sync(~0U, through, 31);
    }
  }
  /// The block that has a pair.
  [[nodiscard]] __device__ __forceinline__ i32 block_of(i32 pair) const {
    i32 block = min(static_cast<i32>(__fdividef(static_cast<float>(pair), static_cast<float>(total)) *
                                     static_cast<float>(blocks)),
                    blocks - 1);
    while (first_of(block + 1) <= pair) ++block;
    while (first_of(block) > pair) --block;
    return block;
  }
};

/// What a block has of one sequence.
struct share {
  i32 b = 0;
  i32 keys;       ///< of the sequence
  i32 begin = 0;  ///< the first pair
  i32 end;
  i32 done = 0;  ///< pairs of the block's before
  i32 pairs;     ///< of the block

  __device__ __forceinline__ share(const deal& of, i32 block) {
    const i32 first = of.first_of(block);
    pairs = block < of.blocks ? of.first_of(block + 1) - first : 0;
    if (pairs == 0) return;
    b = of.sequence_of(first, begin);
    take(of);
  }
  [[nodiscard]] __device__ __forceinline__ bool left() const { return done < pairs; }
  [[nodiscard]] __device__ __forceinline__ bool whole() const {
    return begin == 0 && end * (2 * latent::keys) >= keys;
  }
  __device__ __forceinline__ void advance(const deal& of) {
    done += end - begin;
    if (!left()) return;
    begin = 0;
    do ++b;
    while (of.keys_of(b) == 0);
    take(of);
  }

 private:
  __device__ __forceinline__ void take(const deal& of) {
    keys = of.keys_of(b);
    end = min((keys + 2 * latent::keys - 1) / (2 * latent::keys), begin + pairs - done);
  }
};

}  // namespace latent

}  // namespace hopper
