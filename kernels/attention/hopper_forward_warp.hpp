// Attention forward on Hopper: a warp that feeds the others, for the calls of engines.
//
// Tiles are counted by sequence, so a short one beside a long one costs what it has. Query heads that share a
// KV head may lie in one tile (as in FlashAttention's PackGQA): the map of the queries is {dim, head, token,
// batch}, and a box takes some tokens of all of these heads.
//
// A page of keys is a box of the map {dim, row of the page, head, page}; the host makes boxes of a page's
// rows, or of a block's where a page holds several blocks. Each lane copies the page that it looks up, so a
// block in eight pages is asked for at once.
#pragma once

#include "hopper_forward_tiles.hpp"

namespace hopper {

/// Assigns tiles to the blocks of threads by what each batch entry has: one a round, or with a counter to who
/// asks; under a mask pairs of the first and the last that are left of a head. Each lane knows one of 32
/// entries.
template <class Shape>
struct ragged_scheduler {
  const extended_problem& p;
  i32 lane;
  i32 heads;  ///< packed ones count once
  i32 next_unit;
  i32 first_entry = 0;  ///< of the 32
  i32 before = 0;       ///< units of the entries before them
  i32 tiles;            ///< of one head of this lane's entry
  i32 until;            ///< units of the 32 up to this lane's entry, included
  i32 item = 0;
  i32 mirrored = -1;  ///< the other tile of a pair, in `item`

  __device__ __forceinline__ explicit ragged_scheduler(const extended_problem& call)
      : p{call}, lane{static_cast<i32>(lane_now())}, heads{query_of<Shape>(call, call.heads)} {
    next_unit = p.tile_counter ? take() : static_cast<i32>(blockIdx.x);
    look();
  }

  [[nodiscard]] __device__ __forceinline__ i32 take() const {
    i32 unit = 0;
    if (lane == 0) unit = atomicAdd(p.tile_counter, 1);
    return __shfl_sync(0xffffffff, unit, 0);
  }

  /// Tiles that one head's are handed out as.
  [[nodiscard]] __device__ __forceinline__ static i32 units_of(i32 count) {
    return Shape::masked ? (count + 1) / 2 : count;
  }

  __device__ __forceinline__ void look() {
    const i32 entry = first_entry + lane;
    i32 queries = 0;
    if (entry < p.batch) {
      queries = p.seqlen_q;
      if (p.has & has_cu_q) queries = __ldg(p.cu_seqlens_q + entry + 1) - __ldg(p.cu_seqlens_q + entry);
      if (p.has & has_used_q) queries = __ldg(p.seqused_q + entry);
    }
    tiles = (rows_of<Shape>(p, queries) + Shape::rows - 1) / Shape::rows;
    until = units_of(tiles) * heads;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const i32 left = __shfl_up_sync(0xffffffff, until, d);
      if (lane >= d) until += left;
    }
  }

  __device__ __forceinline__ bool next(tile& t, tile_source& from) {
    i32 at = mirrored;
    mirrored = -1;
    if (at < 0) {
      i32 here = __shfl_sync(0xffffffff, until, 31);
      while (next_unit - before >= here) {
        first_entry += 32;
        if (first_entry >= p.batch) return false;
        before += here;
        look();
        here = __shfl_sync(0xffffffff, until, 31);
      }
      const i32 unit = next_unit - before;
      next_unit = p.tile_counter ? take() : next_unit + static_cast<i32>(gridDim.x);
      const int of = __ffs(static_cast<int>(__ballot_sync(0xffffffff, until > unit))) - 1;
      const i32 count = __shfl_sync(0xffffffff, tiles, of);
      const i32 each = units_of(count);
      const i32 inside = unit - (__shfl_sync(0xffffffff, until, of) - each * heads);
      const i32 head = inside / each;
      item = (first_entry + of) * heads + head;
      at = inside - head * each;
      if constexpr (Shape::masked) {
        const i32 last = count - 1 - at;
        if (last != at) mirrored = at;
        at = last;
      }
    }
    return locate<Shape>(p, item, at, t, from);
  }
};

/// A block's keys in memory, for one lane.
struct page_rows {
  i32 page;   ///< -1: this lane copies nothing
  i32 first;  ///< row in the page
};

/// What feeds the others.
template <class Shape>
__device__ __forceinline__ void produce_by_warp(const tensor_map& q_map, const tensor_map& k_map,
                                                const tensor_map& v_map, const extended_problem& p,
                                                barriers<Shape> bars, u32 shared, tile* places) {
  ring<Shape::stages> at_k, at_v;
  ring<Shape::query_stages> at_q;
  ring<Shape::tile_slots> at_tile;
  ragged_scheduler<Shape> tiles{p};
  tile t;
  tile_source from;
  const i32 lane = tiles.lane;
  // Keys of one copy.
  const i32 rows = Shape::paged ? min(p.page_size, Shape::keys) : Shape::keys;
  while (tiles.next(t, from)) {
    at_tile.advance();
    if (lane == 0) places[at_tile.stage] = t;
    const auto rows_of_block = [&](i32 n) -> page_rows {
      if constexpr (!Shape::paged)
        return {lane == 0 ? from.entry_k : -1, from.token_k + start_of<Shape>(n, t.keys)};
      const i32 key = n * Shape::keys + lane * rows;
      if (n < t.first_block || lane * rows >= Shape::keys || key >= t.keys) return {-1, 0};
      const i32 at = key / p.page_size;
      return {__ldg(p.block_table + from.entry_k * p.block_table_stride + at), key - at * p.page_size};
    };
    const auto load = [&]<int Panels>(panels_of<Panels>, const tensor_map& map, u32 to, u32 barrier,
                                      page_rows mine) {
      const i32 copies = __popc(__ballot_sync(0xffffffff, mine.page >= 0));
      if (lane == 0) arrive_expecting(barrier, static_cast<u32>(copies * rows) * (Panels * 128));
      __syncwarp();
      if (mine.page < 0) return;
#pragma unroll
      for (int d = 0; d < Panels; ++d) {
        copy_box(to + static_cast<u32>(d) * Shape::panel_k + static_cast<u32>(lane * rows) * 128, map,
                 barrier, 64 * d, mine.first, from.head_kv, mine.page);
      }
    };
    const auto load_k = [&](page_rows mine) {
      wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
      load(panels_of<Shape::panels>{}, k_map,
           shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k, bars.full_k(at_k.stage),
           mine);
      at_k.advance();
    };
    const auto load_v = [&](page_rows mine) {
      wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
      load(panels_of<Shape::panels_v>{}, v_map,
           shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v, bars.full_v(at_v.stage),
           mine);
      at_v.advance();
    };
    i32 n = t.last_block - 1;
    page_rows now = rows_of_block(n);
    page_rows next = rows_of_block(n - 1);
    load_k(now);
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    if (lane == 0) {
      const u32 full_q = bars.full_q(at_q.stage);
      arrive_expecting(full_q, Shape::bytes_q);
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(
            shared + static_cast<u32>(at_q.stage) * Shape::bytes_q + static_cast<u32>(d) * Shape::panel_q,
            q_map, full_q, 64 * d, from.head, from.token_q + query_of<Shape>(p, t.begin), from.entry_q);
      }
    }
    at_q.advance();
    for (; n > t.first_block; --n) {
      const page_rows after = rows_of_block(n - 2);  // asked for before the waits
      load_k(next);
      load_v(now);
      now = next;
      next = after;
    }
    load_v(now);
  }
  at_tile.advance();
  wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
  if (lane == 0) {
    places[at_tile.stage].first_block = -1;
    arrive(bars.full_q(at_q.stage));
  }
}

}  // namespace hopper
