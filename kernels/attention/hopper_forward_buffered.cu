// SPDX-License-Identifier: MIT
// Attention forward on Hopper whose results leave through a buffer of their own, which each warp copies out
// by itself, and whose tiles' queries are copied early. Most of these kernels are for sequences of a few
// blocks of keys: where those of hopper_forward.cu overlap a warpgroup's exponentials with its own products,
// which takes a step of another kind wherever a tile ends, these overlap them with other warpgroups'
// products, as cuDNN's kernels do. All steps are alike then, and the next tile's first scores follow a tile's
// last values. What was tried: NOTES-hopper.md.
#include "hopper_forward_worker.hpp"

namespace hopper {

/// A warpgroup's exponentials overlap with its own products, as in hopper_forward.cu; or with those of
/// others, where warpgroups take turns at exponentials, or run as they come.
enum class overlap { within, turns, free };

/// Sizes of a kernel of which `Blocks` run on a multiprocessor at once, with 64 `Groups` rows.
template <class Type, int Dim, int Groups, int Keys, int Stages, bool Masked, overlap Overlap, int Blocks>
struct buffered_shape
    : shape<Type, Dim, Dim, Groups, Keys, Stages, Masked, false, Overlap == overlap::within, 2> {
  using base = shape<Type, Dim, Dim, Groups, Keys, Stages, Masked, false, Overlap == overlap::within, 2>;
  static constexpr overlap overlaps = Overlap;
  static constexpr int blocks = Blocks;
  // Whether a block's scores are started behind the values of the block before. With few registers they are
  // not.
  static constexpr bool chained = Blocks == 1;
  static constexpr bool skips = Overlap == overlap::within
                                    ? base::skips
                                    : Overlap == overlap::free && Masked;  // no turn may be left out
  static constexpr bool copies_out = true;
  static constexpr u32 registers = Blocks == 1 ? base::registers : 104;
  static constexpr u32 producer_registers = Blocks == 1 ? base::producer_registers : 24;
  static constexpr u32 at_out = base::at_barriers;
  static constexpr u32 at_barriers = at_out + base::rows * 128 * base::panels_v;
  static constexpr u32 at_tiles = at_barriers + (base::at_tiles - base::at_barriers);
  static constexpr u32 shared_bytes = at_tiles + base::tile_slots * 64;
  static_assert(Overlap != overlap::turns || Groups == 2);
};

/// What feeds the others, one thread. A tile's queries come behind the first keys and values of the tile
/// before.
template <class Shape>
__device__ __forceinline__ void feed(const tensor_map& q_map, const tensor_map& k_map,
                                     const tensor_map& v_map, const problem& p, barriers<Shape> bars,
                                     u32 shared, tile* places) {
  ring<Shape::stages> at_k, at_v;
  ring<Shape::query_stages> at_q;
  ring<Shape::tile_slots> at_tile;
  tile_scheduler<Shape> tiles{p};
  tile t, next{};
  tile_source from, next_from{};
  const auto announce = [&](bool more) {
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    at_tile.advance();
    const u32 full_q = bars.full_q(at_q.stage);
    if (more) {
      next.head = next_from.head;
      next.extra = next_from.entry_q + next_from.token_q;  // one of them is zero
      places[at_tile.stage] = next;
      arrive_expecting(full_q, Shape::bytes_q);
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(
            shared + static_cast<u32>(at_q.stage) * Shape::bytes_q + static_cast<u32>(d) * Shape::panel_q,
            q_map, full_q, 64 * d, next_from.token_q + next.begin, next_from.head, next_from.entry_q);
      }
    } else {
      places[at_tile.stage].first_block = -1;
      arrive(full_q);
    }
    at_q.advance();
  };
  const auto load = [&](const tensor_map& map, u32 to, u32 barrier, i32 n) {
    arrive_expecting(barrier, Shape::bytes_k);
#pragma unroll
    for (int d = 0; d < Shape::panels; ++d) {
      copy_box(to + static_cast<u32>(d) * Shape::panel_k, map, barrier, 64 * d,
               from.token_k + start_of<Shape>(n, t.keys), from.head_kv, from.entry_k);
    }
  };
  const auto load_k = [&](i32 n) {
    wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
    load(k_map, shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k, bars.full_k(at_k.stage),
         n);
    at_k.advance();
  };
  const auto load_v = [&](i32 n) {
    wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
    load(v_map, shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v, bars.full_v(at_v.stage),
         n);
    at_v.advance();
  };
  bool more = tiles.next(next, next_from);
  announce(more);
  while (more) {
    t = next;
    from = next_from;
    more = tiles.next(next, next_from);
    const i32 count = t.last_block - t.first_block;
    if constexpr (Shape::overlaps == overlap::within) load_k(t.last_block - 1);
    for (i32 i = 0; i < count; ++i) {
      const i32 n = Shape::chained ? t.last_block - 1 - i : t.first_block + i;
      if constexpr (Shape::overlaps == overlap::within) {
        if (n > t.first_block) load_k(n - 1);
      } else {
        load_k(n);
      }
      load_v(n);
      if (i == 0) announce(more);
    }
  }
}

/// A warpgroup that waits for its products before its exponentials.
template <class Shape>
struct buffered_consumer : consumer<Shape> {
  using base = consumer<Shape>;
  using base::at_k;
  using base::at_tile;
  using base::at_v;
  using base::bars;
  using base::out;
  using base::places;
  using base::weights;

  using base::base;
  using score_block = float[base::score_count];

  __device__ __forceinline__ void begin_turn() { named_sync(1 + static_cast<u32>(this->group), 256); }
  /// The sums are in the barrier's number for the assembler, which otherwise arrives before the exponentials:
  /// it does not know that none is negative.
  __device__ __forceinline__ void end_turn(const row_state& rows) {
    const u32 next = rows.sum[0] + rows.sum[1] < 0.0F ? 0 : 2 - static_cast<u32>(this->group);
    named_arrive(next, 256);
  }

  /// The scores of block n become weights.
  __device__ __forceinline__ void soften(score_block& scores, const tile& t, i32 n, row_state& rows) {
    this->prepare_scores(scores, t, n);
    if constexpr (Shape::overlaps == overlap::turns) begin_turn();
    weigh<false, false>(scores, rows, this->factor);
    if constexpr (Shape::overlaps == overlap::turns) end_turn(rows);
    this->rescale(rows);
    this->round_weights(scores);
  }

  __device__ __forceinline__ void begin_values() {
    wait(bars.full_v(at_v.stage), at_v.phase);
    pin(out);
    pin(weights);
    product_fence();
    this->start_values(at_v.stage);
  }
  __device__ __forceinline__ void begin_scores(score_block& scores) {
    wait(bars.full_k(at_k.stage), at_k.phase);
    product_fence();
    this->start_scores(scores, at_k.stage);
  }
  __device__ __forceinline__ void end_values() {
    pin(out);
    pin(weights);
    this->arrive_once(bars.empty_v(at_v.stage));
    at_v.advance();
  }
  __device__ __forceinline__ void end_scores(score_block& scores) {
    product_wait<0>();
    pin(scores);
    this->arrive_once(bars.empty_k(at_k.stage));
    at_k.advance();
  }

  /// Lets blocks go that this warpgroup's rows do not see.
  __device__ __forceinline__ void pass_over(i32 count) {
    if constexpr (Shape::skips) {
#pragma unroll 1
      for (; count > 0; --count) {
        wait(bars.full_k(at_k.stage), at_k.phase);
        this->arrive_once(bars.empty_k(at_k.stage));
        at_k.advance();
        wait(bars.full_v(at_v.stage), at_v.phase);
        this->arrive_once(bars.empty_v(at_v.stage));
        at_v.advance();
      }
    }
  }

  __device__ __forceinline__ void clear_foreign(const tile& t) {
    if (t.foreign > 0) {
      wait(bars.full_v(at_v.stage), at_v.phase);
      this->clear_values(0, t.foreign, at_v.stage);
    }
  }

  __device__ __forceinline__ void finish(int slot, const row_state& rows) {
    float share[2];
    this->finish_rows(places[slot], rows, share);
    this->write(places[slot], share);
  }

  /// All tiles, the blocks of keys of each from the first to the last.
  // In a loop that asks for the next tile in its head the assembler no longer knows what is uniform, and puts
  // the products' operands into vector registers.
  __device__ __forceinline__ void run_plain() {
    tile t;
    if (!this->next_tile(t)) return;
#pragma unroll 1
    while (true) {
      row_state rows;
      this->clear(rows);
      pass_over(this->behind);
      clear_foreign(t);
#pragma unroll 1
      for (i32 n = t.first_block; n < t.last_block; ++n) {
        score_block scores;
        begin_scores(scores);
        end_scores(scores);
        soften(scores, t, n, rows);
        begin_values();
        product_wait<0>();
        end_values();
      }
      this->leave_queries();
      pass_over(this->before);
      finish(at_tile.stage, rows);
      if (!this->next_tile(t)) return;
    }
  }

  /// All tiles, the blocks of keys of each from the last to the first. What follows a block's values, of the
  /// same tile or of the next, is started with them.
  __device__ __forceinline__ void run_chained() {
    tile t;
    if (!this->next_tile(t)) return;
    score_block scores;
    row_state rows;
    this->clear(rows);
    pass_over(this->before);
    begin_scores(scores);
    end_scores(scores);
    i32 n = t.last_block - 1;
    while (true) {
#pragma unroll 1
      for (; n > t.first_block; --n) {
        soften(scores, t, n, rows);
        begin_values();
        begin_scores(scores);
        product_wait<1>();
        end_values();
        end_scores(scores);
      }
      this->leave_queries();
      soften(scores, t, n, rows);
      clear_foreign(t);
      const i32 left = Shape::skips ? this->behind : 0;
      const int slot = at_tile.stage;
      if (!this->next_tile(t)) {
        begin_values();
        product_wait<0>();
        end_values();
        pass_over(left);
        finish(slot, rows);
        return;
      }
      begin_values();
      if (Shape::skips && left + this->before > 0) {
        product_wait<0>();
        end_values();
        pass_over(left + this->before);
        begin_scores(scores);
      } else {
        begin_scores(scores);
        product_wait<1>();
        end_values();
      }
      finish(slot, rows);
      rows = row_state{};
      this->clear(rows);
      n = t.last_block - 1;
      end_scores(scores);
    }
  }
};

template <class Shape>
__device__ __forceinline__ void buffered_attention(const tensor_map& q_map, const tensor_map& k_map,
                                                   const tensor_map& v_map, const tensor_map& out_map,
                                                   const problem& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 shared = shared_address(memory);
  const barriers<Shape> bars{shared + Shape::at_barriers};
  auto* const places = reinterpret_cast<tile*>(memory + Shape::at_tiles);
  if (threadIdx.x == 0) {
    prefetch(q_map);
    prefetch(k_map);
    prefetch(v_map);
    prefetch(out_map);
    for (int s = 0; s < Shape::query_stages; ++s) {
      init_barrier(bars.full_q(s), 1);
      init_barrier(bars.empty_q(s), 4 * Shape::groups);
    }
    for (int s = 0; s < Shape::stages; ++s) {
      init_barrier(bars.full_k(s), 1);
      init_barrier(bars.full_v(s), 1);
      init_barrier(bars.empty_k(s), 4 * Shape::groups);
      init_barrier(bars.empty_v(s), 4 * Shape::groups);
    }
    fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == Shape::groups) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x / 32 == 4 * Shape::groups && elect_one())
      feed<Shape>(q_map, k_map, v_map, p, bars, shared, places);
  } else {
    take_registers<Shape::registers>();
    buffered_consumer<Shape> worker{p, bars, shared, places, warpgroup};
    worker.out_map = &out_map;
    const bool last = warpgroup + 1 == Shape::groups;  // gives the first turn to the first
    if constexpr (Shape::overlaps == overlap::within) {
      if (last) worker.pass_turn();
      worker.run();
    } else {
      if constexpr (Shape::overlaps == overlap::turns) {
        if (last) worker.end_turn(row_state{});
      }
      if constexpr (Shape::chained) {
        worker.run_chained();
      } else {
        worker.run_plain();
      }
    }
    wait_bulk_reads();
  }
}

}  // namespace hopper

#define ATTENTION_FORWARD_BUFFERED(name, ...)                                                            \
  extern "C" __global__ void __launch_bounds__((hopper::buffered_shape<__VA_ARGS__>::threads),           \
                                               (hopper::buffered_shape<__VA_ARGS__>::blocks))            \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k,   \
           const __grid_constant__ hopper::tensor_map v, const __grid_constant__ hopper::tensor_map out, \
           const __grid_constant__ hopper::problem p) {                                                  \
    hopper::buffered_attention<hopper::buffered_shape<__VA_ARGS__>>(q, k, v, out, p);                    \
  }
