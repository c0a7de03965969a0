// SPDX-License-Identifier: MIT
// Attention backward on Hopper: sizes of a kernel, where its shared memory is, and the tiles of keys that
// blocks of threads take, one after the other.
#pragma once

#include "hopper_backward.hpp"

namespace hopper {

/// Sizes of a kernel. `Capped`: scores are. `Ordered`: the blocks of keys that see a tile of queries add to
/// its dq in a fixed order. `Back`: which is that of the keys, and tiles of queries are taken from the last.
template <class Type, int Dim, int DimV, int Queries, int Stages, bool Capped, bool Ordered = false,
          bool Back = false>
struct backward_shape {
  using type = Type;
  using share = dq_shares<Dim, Queries>;
  static constexpr int dim = Dim;
  static constexpr int dim_v = DimV;
  static constexpr int queries = Queries;  ///< of a stage
  static constexpr int part = 64;          ///< of those, how many are multiplied at a time
  static constexpr int keys = 128;
  static constexpr int stages = Stages;
  static constexpr bool capped = Capped;
  static constexpr bool ordered = Ordered;
  static constexpr bool back = Back;
  static constexpr int panels = (Dim + 63) / 64;
  static constexpr int panels_v = (DimV + 63) / 64;
  /// Whether the first warpgroup alone makes dq, of all columns: the second half of 96 begins inside a panel.
  static constexpr bool single = Dim == 96;
  static constexpr int key_stages = 2;
  static constexpr int threads = 384;
  /// Whether a warpgroup keeps its keys and values in registers, as first operands of scores and dP.
  static constexpr bool held_keys = Dim == 64;
  static constexpr bool held_values = Dim == 64 || (Dim == 96 && !Capped);
  /// Whether the blocks of keys of a head begin with different queries where all see all: those that run side
  /// by side would otherwise add to the same sums at the same time.
  static constexpr bool rotated = Dim == 64 && !Ordered;
  static constexpr u32 registers = 240;
  static constexpr u32 producer_registers = 24;
  static constexpr u32 panel_k = keys * 128;
  static constexpr u32 panel_q = Queries * 128;
  static constexpr u32 bytes_k = panels * panel_k;
  static constexpr u32 bytes_v = panels_v * panel_k;
  static constexpr u32 bytes_q = panels * panel_q;
  static constexpr u32 bytes_do = panels_v * panel_q;
  static constexpr u32 bytes_slopes = 2 * panel_q;  // 64 keys a panel
  static constexpr u32 bytes_row = Queries * 4;
  static constexpr u32 at_v = key_stages * bytes_k;
  static constexpr u32 at_q = at_v + bytes_v;
  static constexpr u32 at_do = at_q + Stages * bytes_q;
  static constexpr u32 at_slopes = at_do + Stages * bytes_do;
  static constexpr u32 at_dq = at_slopes + 2 * bytes_slopes;
  static constexpr u32 at_lse = at_dq + 8 * share::warp_bytes;
  static constexpr u32 at_delta = at_lse + Stages * bytes_row;
  static constexpr u32 at_tiles = at_delta + Stages * bytes_row;
  static constexpr u32 at_barriers = at_tiles + 2 * 64;
  static constexpr u32 shared_bytes = at_barriers + 16 * (7 + 2 * Stages + (Ordered ? 1 : 0));
};

/// Addresses of the barriers.
template <class Shape>
struct backward_barriers {
  u32 base;
  __device__ u32 full_v() const { return base; }
  __device__ u32 empty_v() const { return base + 8; }
  __device__ u32 full_k(u32 s) const { return base + 16 + 16 * s; }
  __device__ u32 empty_k(u32 s) const { return full_k(s) + 8; }
  __device__ u32 full_tile(u32 s) const { return full_k(2 + s); }
  __device__ u32 empty_tile(u32 s) const { return full_tile(s) + 8; }
  __device__ u32 full_slopes(u32 s) const { return full_tile(2 + s); }
  __device__ u32 empty_slopes(u32 s) const { return full_slopes(s) + 8; }
  __device__ u32 full_q(u32 s) const { return full_tile(4 + s); }
  __device__ u32 empty_q(u32 s) const { return full_q(s) + 8; }
  __device__ u32 full_do(u32 s) const { return full_tile(4 + Shape::stages + s); }
  __device__ u32 empty_do(u32 s) const { return full_do(s) + 8; }
  __device__ u32 full_weights() const { return full_do(Shape::stages); }  // of hopper_backward_wide.cu alone
  __device__ u32 empty_weights() const { return full_weights() + 8; }
  __device__ u32 full_sums() const {  // where sums are ordered
    if constexpr (requires { Shape::at_weights; }) return full_weights() + 16;
    return full_do(Shape::stages);
  }
  __device__ u32 empty_sums() const { return full_sums() + 8; }
};

/// A block of keys and the tiles of queries that see one of them.
struct alignas(64) key_tile {
  i32 steps;        ///< tiles of queries of the heads taken; -1: there is no key tile left
  i32 first, last;  ///< tiles of queries of a head, [first, last)
  i32 begin, keys;  ///< the first key, and all of the sequence
  i32 queries;
  i32 diagonal;  ///< the key on the diagonal of query 0
  i32 head;      ///< the first query head of the group
  i64 dk, dv;    ///< elements of the first key, in dk and dv or in their sums
  i32 filled;    ///< how many before it some query saw
  i32 sums;      ///< the tile of queries that is taken first, counted over all heads
  i32 start;     ///< and counted in its head
};
static_assert(sizeof(key_tile) == 64);

/// The tiles of queries that see a block of keys, in the order in which they are taken: from `start` to the
/// last and on from the first, then those of the next head. `Back`: from the last to the first.
template <bool Back = false>
struct query_walk {
  i32 at;          ///< in its head
  i32 over_heads;  ///< counted over all heads
  i32 first, last, start;

  __device__ __forceinline__ explicit query_walk(const key_tile& t)
      : at{t.start}, over_heads{t.sums}, first{t.first}, last{t.last}, start{t.start} {}

  /// Keeps it in uniform registers.
  __device__ __forceinline__ void make_uniform() {
    at = uniform(at);
    over_heads = uniform(over_heads);
    first = uniform(first);
    last = uniform(last);
    start = uniform(start);
  }

  /// Whether a head ends here; `tiles`: those of a head.
  __device__ __forceinline__ bool advance(i32 tiles) {
    if constexpr (Back) {
      --over_heads;
      if (at-- > first) return false;
      at = last - 1;
      over_heads += last - first + tiles;
      return true;
    }
    ++over_heads;
    if (++at == last) {
      at = first;
      over_heads -= last - first;
    }
    if (at != start) return false;
    over_heads += tiles;
    return true;
  }
};

/// What the copies of a tile need besides.
struct key_source {
  i32 head_kv, entry_q, entry_k, token_q, token_k;
};

template <class Shape>
__device__ __forceinline__ bool locate(const backward_problem& p, i32 item, i32 at, key_tile& t,
                                       key_source& from) {
  const i32 parts = p.heads / p.members;  // of all heads
  const i32 entry = item / parts;
  const i32 part = item - entry * parts;
  if constexpr (Shape::back) {
    // Neighbours are of different groups: those of one write their dk and dv one after the other.
    t.head = part % p.heads_kv * (p.heads / p.heads_kv) + part / p.heads_kv * p.members;
  } else {
    t.head = part * p.members;
  }
  from.head_kv = t.head / (p.heads / p.heads_kv);
  const query_rows q = find_queries(p, entry);
  const query_rows k = find_keys(p, entry);
  t.begin = at * Shape::keys;
  if (t.begin >= k.count) return false;
  from.entry_q = q.entry;
  from.entry_k = k.entry;
  from.token_q = q.token;
  from.token_k = k.token;
  t.queries = q.count;
  t.keys = k.count;
  t.diagonal = p.bottom_right ? k.count - q.count : 0;
  const i32 end = min(t.begin + Shape::keys, k.count);
  const i32 low = max(t.begin - t.diagonal - p.right, 0);
  const i32 high = min(end - t.diagonal + p.left, q.count);
  t.first = low < high ? low / Shape::queries : 0;
  t.last = low < high ? (high + Shape::queries - 1) / Shape::queries : 0;
  t.steps = (t.last - t.first) * p.members;
  const i64 token = k.token + t.begin;
  if (p.dk_sum && !Shape::back) {
    const i64 row = static_cast<i64>(entry * p.heads_kv + from.head_kv) * p.rows_k + t.begin;
    t.dk = row * Shape::dim;
    t.dv = row * Shape::dim_v;
  } else {
    t.dk = k.entry * p.dk_stride_batch + from.head_kv * p.dk_stride_head + token * p.dk_stride_token;
    t.dv = k.entry * p.dv_stride_batch + from.head_kv * p.dv_stride_head + token * p.dv_stride_token;
  }
  t.start = Shape::back ? max(t.last - 1, 0) : t.first;
  if (Shape::rotated && p.left >= 1 << 29 && p.right >= 1 << 29) {
    const i32 blocks = (k.count + Shape::keys - 1) / Shape::keys;
    t.start += static_cast<i32>(static_cast<i64>(at) * (t.last - t.first) / blocks);
  }
  t.sums = (entry * p.heads + t.head) * (p.rows / Shape::queries) + t.start;
  return true;
}

/// Tiles to who asks: heads in sections, and those tiles first that causal masks leave most queries. Where
/// sums are ordered, those first that add first; a block then takes its next tile only when it begins with
/// it, since later tiles wait for it.
template <class Shape>
struct key_tiles {
  const backward_problem& p;
  i32 next_unit;

  __device__ __forceinline__ explicit key_tiles(const backward_problem& call)
      : p{call}, next_unit{Shape::ordered ? 0 : atomicAdd(call.next_tile, 1)} {}

  __device__ __forceinline__ bool next(key_tile& t, key_source& from) {
    if constexpr (Shape::ordered) next_unit = atomicAdd(p.next_tile, 1);
    const i32 tiles = (p.seqlen_k + Shape::keys - 1) / Shape::keys;
    const i32 items = p.heads / p.members * p.batch;
    while (next_unit < tiles * items) {
      // The last section is larger: it has to even out what blocks have done.
      const i32 before = max(items - p.last_section, 0) / p.section * p.section;
      const bool in_last = next_unit >= before * tiles;
      const i32 here = in_last ? items - before : p.section;
      const i32 first = in_last ? before : next_unit / (p.section * tiles) * p.section;
      const i32 inside = next_unit - first * tiles;
      i32 at = inside / here;
      const i32 item = first + inside - at * here;
      if constexpr (Shape::ordered) {
        if (!Shape::back && p.right < 1 << 29) at = tiles - 1 - at;
        if (locate<Shape>(p, item, at, t, from)) return true;
      }
      next_unit = atomicAdd(p.next_tile, 1);
      if constexpr (!Shape::ordered) {
        if (locate<Shape>(p, item, at, t, from)) return true;
      }
    }
    return false;
  }
};

/// What feeds the others, one thread.
template <class Shape>
__device__ __forceinline__ void produce_tiles(const tensor_map& q_map, const tensor_map& k_map,
                                              const tensor_map& v_map, const tensor_map& dout_map,
                                              const backward_problem& p, backward_barriers<Shape> bars,
                                              unsigned char* memory) {
  const u32 shared = shared_address(memory);
  auto* const places = reinterpret_cast<key_tile*>(memory + Shape::at_tiles);
  ring<Shape::stages> at_q, at_do;
  ring<2> at_tile;
  ring<Shape::key_stages> at_k;
  u32 phase_v = 0;
  i32 filled = 0;
  key_tiles<Shape> tiles{p};
  key_tile t;
  key_source from;
  while (tiles.next(t, from)) {
    wait(bars.empty_tile(at_tile.stage), at_tile.phase ^ 1);
    t.filled = filled;
    if (t.steps > 0) ++filled;
    places[at_tile.stage] = t;
    arrive(bars.full_tile(at_tile.stage));
    at_tile.advance();
    i32 head = t.head;
    query_walk<Shape::back> walk{t};
    for (i32 step = 0; step < t.steps; ++step) {
      wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
      const u32 full_q = bars.full_q(at_q.stage);
      copy_bytes(shared + Shape::at_lse + static_cast<u32>(at_q.stage) * Shape::bytes_row,
                 p.scaled_lse + static_cast<i64>(walk.over_heads) * Shape::queries, Shape::bytes_row, full_q);
      arrive_expecting(full_q, Shape::bytes_q + Shape::bytes_row);
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(shared + Shape::at_q + static_cast<u32>(at_q.stage) * Shape::bytes_q + d * Shape::panel_q,
                 q_map, full_q, 64 * d, from.token_q + walk.at * Shape::queries, head, from.entry_q);
      }
      at_q.advance();
      if (step == 0) {
        wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
        const u32 full_k = bars.full_k(at_k.stage);
        arrive_expecting(full_k, Shape::bytes_k);
        for (int d = 0; d < Shape::panels; ++d) {
          copy_box(
              shared + static_cast<u32>(at_k.stage) * Shape::bytes_k + static_cast<u32>(d) * Shape::panel_k,
              k_map, full_k, 64 * d, from.token_k + t.begin, from.head_kv, from.entry_k);
        }
        at_k.advance();
        wait(bars.empty_v(), phase_v ^ 1);
        arrive_expecting(bars.full_v(), Shape::bytes_v);
        for (int d = 0; d < Shape::panels_v; ++d) {
          copy_box(shared + Shape::at_v + static_cast<u32>(d) * Shape::panel_k, v_map, bars.full_v(), 64 * d,
                   from.token_k + t.begin, from.head_kv, from.entry_k);
        }
        phase_v ^= 1;
      }
      wait(bars.empty_do(at_do.stage), at_do.phase ^ 1);
      const u32 full_do = bars.full_do(at_do.stage);
      copy_bytes(shared + Shape::at_delta + static_cast<u32>(at_do.stage) * Shape::bytes_row,
                 p.delta + static_cast<i64>(walk.over_heads) * Shape::queries, Shape::bytes_row, full_do);
      arrive_expecting(full_do, Shape::bytes_do + Shape::bytes_row);
#pragma unroll
      for (int d = 0; d < Shape::panels_v; ++d) {
        copy_box(shared + Shape::at_do + static_cast<u32>(at_do.stage) * Shape::bytes_do + d * Shape::panel_q,
                 dout_map, full_do, 64 * d, from.token_q + walk.at * Shape::queries, head, from.entry_q);
      }
      at_do.advance();
      if (walk.advance(p.rows / Shape::queries)) ++head;
    }
  }
  wait(bars.empty_tile(at_tile.stage), at_tile.phase ^ 1);
  places[at_tile.stage].steps = -1;
  arrive(bars.full_tile(at_tile.stage));
}

}  // namespace hopper
