// SPDX-License-Identifier: MIT
// Attention forward on Hopper: warps that feed the others, for the calls of engines.
//
// Tiles are counted by sequence, so a short one beside a long one costs what it has. Query heads that share a
// KV head may lie in one tile (as in FlashAttention's PackGQA): the map of the queries is then {dim, head,
// token, batch}, and a box takes some tokens of all of these heads.
//
// A page of keys is a box of the map {dim, row of the page, head, page}; the host makes boxes of a page's
// rows, or of a block's where a page holds several blocks. Each lane copies the page that it looks up. A warp
// issues its lanes' copies one after the other, so pages have several warps: some copy keys, some values, and
// where there are two panels or more, each copies every second one. Each warp finds all tiles for itself.
// With a counter, which gives out a tile only once, one warp copies everything.
#pragma once

#include "hopper_forward_narrow.hpp"
#include "hopper_forward_tiles.hpp"
#include "hopper_forward_widening.hpp"

namespace hopper {

/// Assigns tiles to the blocks of threads by what each sequence has. Each lane knows one of 32 sequences;
/// where all are equally long they count as one, with the heads of all.
///
/// With a counter, tiles that see most come first, to who asks, heads in groups whose keys stay in the L2
/// cache. Without one, and under a causal mask, in pairs of the first and the last that are left of a head,
/// so that neighbours read the same keys. Where pairs fill their last round badly and there is one group of
/// equally long sequences, tiles that see most come first, in rounds of alternating direction: who had a long
/// one gets a short one.
template <class Shape>
struct ragged_scheduler {
  const typename Shape::problem_type& p;
  i32 lane;
  i32 entries, heads;  ///< packed heads count once
  i32 next_unit;
  i32 step;  ///< to the next, without a counter
  bool sorted = false, alternates = false, pairs = false;
  i32 first_entry = 0;  ///< of the 32
  i32 before = 0;       ///< units of the entries before them
  i32 tiles;            ///< of one head of this lane's entry
  i32 until;            ///< units of the 32 up to this lane's entry, included
  i32 item = 0;
  i32 mirrored = -1;  ///< the other tile of a pair, in `item`

  __device__ __forceinline__ explicit ragged_scheduler(const typename Shape::problem_type& call)
      : p{call},
        lane{static_cast<i32>(lane_now())},
        entries{call.batch},
        heads{heads_of<Shape>(call)},
        step{static_cast<i32>(gridDim.x)} {
    const bool even = !(p.has & (has_cu_q | has_used_q));
    if (even) {
      heads *= entries;
      entries = 1;
    }
    next_unit = p.tile_counter ? take() : static_cast<i32>(blockIdx.x);
    look();
    sorted = p.tile_counter != nullptr;
    const bool rounds = entries > 32 || __shfl_sync(0xffffffff, until, 31) > step;
    if (Shape::masked && !Shape::split && !sorted && p.left >= no_limit && rounds) {
      pairs = true;
      look();
      const i32 units = __shfl_sync(0xffffffff, until, 31);
      const i32 wasted = (step - units % step) % step;
      if (even && p.group >= heads && 16 * wasted > units) {
        pairs = false;
        sorted = alternates = true;
        look();
        step = 2 * (step - 1 - next_unit) + 1;
      }
    }
  }

  [[nodiscard]] __device__ __forceinline__ i32 take() const {
    i32 unit = 0;
    if (lane == 0) unit = atomicAdd(p.tile_counter, 1);
    return __shfl_sync(0xffffffff, unit, 0);
  }

  /// What one head's tiles are handed out as.
  [[nodiscard]] __device__ __forceinline__ i32 units_of(i32 count) const {
    if constexpr (Shape::split) return count * static_cast<i32>(p.splits);
    return pairs ? (count + 1) / 2 : count;
  }

  __device__ __forceinline__ void look() {
    const i32 entry = first_entry + lane;
    i32 queries = 0;
    if (entry < entries) {
      queries = p.seqlen_q;
      if (p.has & has_cu_q) queries = __ldg(p.cu_seqlens_q + entry + 1) - __ldg(p.cu_seqlens_q + entry);
      if (p.has & has_used_q) queries = __ldg(p.seqused_q + entry);
    }
    tiles = (queries + p.tokens - 1) / p.tokens;
    until = units_of(tiles) * heads;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const i32 left = __shfl_up_sync(0xffffffff, until, d);
      if (lane >= d) until += left;
    }
  }

  /// The unit after this one.
  __device__ __forceinline__ void advance() {
    if (p.tile_counter) {
      next_unit = take();
      return;
    }
    next_unit += step;
    if (alternates) step = 2 * static_cast<i32>(gridDim.x) - step;
  }

  __device__ __forceinline__ bool next(tile& t, tile_source& from) {
    i32 at = mirrored;
    i32 part = 0;
    mirrored = -1;
    if (at < 0) {
      i32 here = __shfl_sync(0xffffffff, until, 31);
      while (next_unit - before >= here) {
        first_entry += 32;
        if (first_entry >= entries) return false;
        before += here;
        look();
        here = __shfl_sync(0xffffffff, until, 31);
      }
      const i32 unit = next_unit - before;
      advance();
      const int of = __ffs(static_cast<int>(__ballot_sync(0xffffffff, until > unit))) - 1;
      const i32 count = __shfl_sync(0xffffffff, tiles, of);
      const i32 each = units_of(count);
      const i32 inside = unit - (__shfl_sync(0xffffffff, until, of) - each * heads);
      i32 head = 0;
      if (sorted) {
        const i32 group = inside / (p.group * count);
        const i32 within = inside - group * p.group * count;
        const i32 together = min(heads - group * p.group, p.group);
        at = within / together;
        head = group * p.group + within - at * together;
      } else {
        head = inside / each;
        at = inside - head * each;
      }
      if constexpr (Shape::split) {
        part = at;
        at /= static_cast<i32>(p.splits);
        part -= at * static_cast<i32>(p.splits);
      }
      item = (first_entry + of) * heads + head;
      if constexpr (Shape::masked) {
        const i32 last = count - 1 - at;
        if (pairs && last != at) mirrored = at;
        at = last;
      }
    }
    const bool found = locate<Shape>(p, item, at, t, from);
    if constexpr (Shape::split) {
      if (found) take_part<Shape>(p, part, t);
    }
    return found;
  }
};

/// A block's keys in memory, for one lane.
struct page_rows {
  i32 page;   ///< -1: this lane copies nothing
  i32 first;  ///< row in the page
};

/// What the copies of a tile need.
struct tile_copies {
  i32 n;  ///< the last block of keys
  i32 first_block, keys;
  i32 first_query, entry;  ///< of the bias
  i32 head, head_kv, entry_q, entry_k, token_q, token_k;
  page_rows last, before;  ///< rows of block n, and of n - 1
};

/// The same where keys are widened. Kernels of other keys do without the member: even unused, it changes what
/// the compiler makes of them.
struct widened_copies : tile_copies {
  i32 made;  ///< blocks from here on are there
};

template <bool Widens>
struct copies_kind {
  using type = tile_copies;
};
template <>
struct copies_kind<true> {
  using type = widened_copies;
};

/// One of the warps that feed the others, by what it copies. The first of those that copy keys announces
/// tiles and copies queries.
template <class Shape, bool Keys = true, bool Values = true>
struct warp_producer {
  using copies = typename copies_kind<Shape::widens>::type;
  const tensor_map& q_map;
  const tensor_map& k_map;
  const tensor_map& v_map;
  const tensor_map& bias_map;
  const typename Shape::problem_type& p;
  barriers<Shape> bars;
  u32 shared;
  tile* places;
  ragged_scheduler<Shape> tiles;
  i32 rows;   ///< keys of one copy
  i32 first;  ///< panel of those that this warp copies
  ring<Shape::stages> at_k, at_v;
  ring<Shape::query_stages> at_q;
  ring<Shape::bias_stages> at_bias;
  ring<Shape::narrow_stages> at_narrow;
  ring<Shape::tile_slots> at_tile;

  __device__ __forceinline__ warp_producer(const tensor_map& q, const tensor_map& k, const tensor_map& v,
                                           const tensor_map& bias, const typename Shape::problem_type& call,
                                           barriers<Shape> b, u32 memory, tile* to, i32 first_panel = 0)
      : q_map{q},
        k_map{k},
        v_map{v},
        bias_map{bias},
        p{call},
        bars{b},
        shared{memory},
        places{to},
        tiles{call},
        first{first_panel} {
    rows = Shape::paged ? min(p.page_size, Shape::keys) : Shape::keys;
  }

  /// Whether this warp has only some of the copies.
  static constexpr bool shares = !Keys || !Values;

  /// Whether this warp announces tiles.
  [[nodiscard]] __device__ __forceinline__ bool leads() const { return Keys && first == 0; }

  /// Where this lane's part of block n lies.
  [[nodiscard]] __device__ __forceinline__ page_rows find(const tile_copies& c, i32 n) const {
    if constexpr (Shape::widened) return {tiles.lane == 0 ? c.entry_k : -1, n};
    if constexpr (!Shape::paged)
      return {tiles.lane == 0 ? c.entry_k : -1, c.token_k + start_of<Shape>(n, c.keys)};
    const i32 key = n * Shape::keys + tiles.lane * rows;
    if (n < c.first_block || tiles.lane * rows >= Shape::keys || key >= c.keys) return {-1, 0};
    const i32 at = key / p.page_size;
    return {__ldg(p.block_table + c.entry_k * p.block_table_stride + at), key - at * p.page_size};
  }

  /// Announces the next tile. It is looked for while the one before is copied, since what its lengths and its
  /// pages are takes several reads of memory, one after the other.
  __device__ __forceinline__ bool next(copies& c) {
    tile t;
    tile_source from;
    if (!tiles.next(t, from)) return false;
    ring<Shape::tile_slots> slot = at_tile;
    slot.advance();
    if (tiles.lane == 0 && (!shares || leads())) places[slot.stage] = t;
    c.n = t.last_block - 1;
    c.first_block = t.first_block;
    c.keys = t.keys;
    if constexpr (Shape::bias_stages > 0) {
      c.first_query = t.begin;
      c.entry = t.extra;
    }
    c.head = from.head;
    c.head_kv = from.head_kv;
    c.entry_q = from.entry_q;
    c.entry_k = from.entry_k;
    c.token_q = from.token_q + t.begin;
    c.token_k = from.token_k;
    if constexpr (Shape::widens) c.made = t.last_block;
    c.last = find(c, c.n);
    c.before = find(c, c.n - 1);
    return true;
  }

  template <int Panels>
  __device__ __forceinline__ void load(const tensor_map& map, u32 to, u32 barrier, i32 head, page_rows mine) {
    const i32 copies = __popc(__ballot_sync(0xffffffff, mine.page >= 0));
    // Another warp's copies may end before: the phase does not, without this arrival.
    if (tiles.lane == 0 && (!shares || first == 0))
      arrive_expecting(barrier, static_cast<u32>(copies * rows) * (Panels * 128));
    __syncwarp();
    if (mine.page < 0) return;
#pragma unroll
    for (int d = 0; d < Panels; ++d) {
      if (shares && Shape::feeders > 2 && d % 2 != first) continue;
      copy_box(to + static_cast<u32>(d) * Shape::panel_k + static_cast<u32>(tiles.lane * rows) * 128, map,
               barrier, 64 * d, mine.first, head, mine.page);
    }
  }

  /// Waits until block n of the tile is made; those before it are looked at too.
  __device__ __forceinline__ void wait_for_block(copies& c, i32 n) {
    if constexpr (Shape::widens) {
      if (n >= c.made) return;
      const u32* const done = p.done + 1 + (c.entry_k * p.heads_kv + c.head_kv) * p.blocks;
      u32 missing;
      do {
        const i32 at = n - tiles.lane;
        missing = __ballot_sync(0xffffffff, at >= c.first_block && load_acquire(done + at) < 2);
      } while (missing & 1);
      c.made = n - (missing != 0 ? __ffs(static_cast<int>(missing)) - 2 : 31);
      __syncwarp();
      fence_async_global();
    }
  }

  /// A block that was widened.
  __device__ __forceinline__ void load_widened(const unsigned char* from, u32 to, u32 barrier, i32 head,
                                               page_rows mine) {
    if (mine.page < 0) return;
    const i64 block = (mine.page * p.heads_kv + head) * p.blocks + mine.first;
    arrive_expecting(barrier, Shape::bytes_k);
    copy_bytes(to, from + block * Shape::bytes_k, Shape::bytes_k, barrier);
  }

  /// A block in e4m3, for the warps that widen it.
  __device__ __forceinline__ void load_narrow(const tensor_map& map, block_kind kind, i32 head,
                                              page_rows mine) {
    wait(bars.empty_narrow(at_narrow.stage), at_narrow.phase ^ 1);
    const u32 barrier = bars.full_narrow(at_narrow.stage);
    const i32 copies = __popc(__ballot_sync(0xffffffff, mine.page >= 0));
    if (tiles.lane == 0) {
      store_shared(shared + Shape::at_kinds + static_cast<u32>(at_narrow.stage) * 4, static_cast<u32>(kind));
      arrive_expecting(barrier, static_cast<u32>(copies * rows) * Shape::dim);
    }
    __syncwarp();
    if (mine.page >= 0) {
      const u32 to = shared + Shape::at_narrow + static_cast<u32>(at_narrow.stage) * Shape::bytes_narrow;
      copy_box(to + static_cast<u32>(tiles.lane * rows) * Shape::dim, map, barrier, 0, mine.first, head,
               mine.page);
    }
    at_narrow.advance();
  }

  __device__ __forceinline__ void load_k(i32 head, page_rows mine) {
    if constexpr (Shape::narrow) {
      load_narrow(k_map, block_kind::keys, head, mine);
      return;
    }
    if constexpr (!Keys) return;
    wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
    if constexpr (Shape::widened) {
      load_widened(p.keys, shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k,
                   bars.full_k(at_k.stage), head, mine);
    } else {
      load<Shape::panels>(k_map, shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k,
                          bars.full_k(at_k.stage), head, mine);
    }
    at_k.advance();
  }

  __device__ __forceinline__ void load_v(i32 head, page_rows mine) {
    if constexpr (Shape::narrow) {
      load_narrow(v_map, block_kind::values, head, mine);
      return;
    }
    if constexpr (!Values) return;
    wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
    if constexpr (Shape::widened) {
      load_widened(p.values, shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v,
                   bars.full_v(at_v.stage), head, mine);
    } else {
      load<Shape::panels_v>(v_map, shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v,
                            bars.full_v(at_v.stage), head, mine);
    }
    at_v.advance();
  }

  /// The bias of block n.
  __device__ __forceinline__ void load_bias(const tile_copies& c, i32 n) {
    if constexpr (Shape::bias_stages > 0) {
      if (!p.in_tiles) return;
      wait(bars.empty_bias(at_bias.stage), at_bias.phase ^ 1);
      if (tiles.lane == 0) {
        const u32 barrier = bars.full_bias(at_bias.stage);
        const u32 to = shared + Shape::at_bias + static_cast<u32>(at_bias.stage) * Shape::bytes_bias;
        const i32 head = p.bias_stride_head != 0 ? c.head : 0;
        const i32 entry = p.bias_stride_batch != 0 ? c.entry : 0;
        arrive_expecting(barrier, Shape::bytes_bias);
#pragma unroll
        for (int d = 0; d < Shape::keys / 64; ++d) {
          copy_box(to + static_cast<u32>(d) * Shape::panel_q, bias_map, barrier,
                   start_of<Shape>(n, c.keys) + 64 * d, c.first_query, head, entry);
        }
      }
      at_bias.advance();
    }
  }

  __device__ __forceinline__ void load_q(const tile_copies& c) {
    if (shares && !leads()) return;
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    if (tiles.lane == 0) {
      const u32 full_q = bars.full_q(at_q.stage);
      // Of heads that lie in tiles of their own, the map is {dim, token, head, batch}.
      const bool alone = p.packed == 1;
      arrive_expecting(full_q, static_cast<u32>(p.tokens * p.packed) * (Shape::panels * 128));
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(
            shared + static_cast<u32>(at_q.stage) * Shape::bytes_q + static_cast<u32>(d) * Shape::panel_q,
            q_map, full_q, 64 * d, alone ? c.token_q : c.head, alone ? c.head : c.token_q, c.entry_q);
      }
    }
    at_q.advance();
  }

  __device__ __forceinline__ void run() {
    copies c;
    bool more = next(c);
#pragma unroll 1
    while (more) {
      at_tile.advance();
      wait_for_block(c, c.n);
      load_k(c.head_kv, c.last);
      load_q(c);
      load_bias(c, c.n);
      copies following;
      more = next(following);
#pragma unroll 1
      for (; c.n > c.first_block; --c.n) {
        const page_rows after = find(c, c.n - 2);  // asked for before the waits
        wait_for_block(c, c.n - 1);
        load_k(c.head_kv, c.before);
        load_bias(c, c.n - 1);
        load_v(c.head_kv, c.last);
        c.last = c.before;
        c.before = after;
      }
      load_v(c.head_kv, c.last);
      c = following;
    }
    if constexpr (Shape::narrow) {
      wait(bars.empty_narrow(at_narrow.stage), at_narrow.phase ^ 1);
      if (tiles.lane == 0) {
        store_shared(shared + Shape::at_kinds + static_cast<u32>(at_narrow.stage) * 4,
                     static_cast<u32>(block_kind::none));
        arrive(bars.full_narrow(at_narrow.stage));
      }
    }
    if (shares && !leads()) return;
    at_tile.advance();
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    if (tiles.lane == 0) {
      places[at_tile.stage].first_block = -1;
      arrive(bars.full_q(at_q.stage));
    }
  }
};

/// What each of several warps that copy pages does.
template <class Shape>
__device__ __forceinline__ void feed(const tensor_map& q_map, const tensor_map& k_map,
                                     const tensor_map& v_map, const tensor_map& bias_map,
                                     const typename Shape::problem_type& p, barriers<Shape> bars, u32 shared,
                                     tile* places) {
  const i32 warp = __shfl_sync(0xffffffff, static_cast<i32>(threadIdx.x) / 32, 0);
  const i32 panel = warp / 2;
  if (p.tile_counter != nullptr) {
    if (warp == 0) warp_producer<Shape>{q_map, k_map, v_map, bias_map, p, bars, shared, places}.run();
  } else if (warp < Shape::feeders && warp % 2 == 0) {
    warp_producer<Shape, true, false>{q_map, k_map, v_map, bias_map, p, bars, shared, places, panel}.run();
  } else if (warp < Shape::feeders) {
    warp_producer<Shape, false, true>{q_map, k_map, v_map, bias_map, p, bars, shared, places, panel}.run();
  }
}

}  // namespace hopper
