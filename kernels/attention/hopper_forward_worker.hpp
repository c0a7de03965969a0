// SPDX-License-Identifier: MIT
// Attention forward on Hopper: what a warpgroup that multiplies does.
#pragma once

#include "hopper_forward_softmax.hpp"
#include "hopper_forward_tiles.hpp"

namespace hopper {

/// A word of constant memory, which the compiler does not load later than here.
template <class T>
[[nodiscard]] __device__ __forceinline__ u32 load_early(const T* from) {
  u32 word;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}

[[nodiscard]] __device__ __forceinline__ u32 load_shared(u32 address) {
  u32 word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

/// What a consumer warpgroup does with the tiles that it shares with the others.
template <class Shape>
struct consumer {
  using type = typename Shape::type;
  static constexpr int score_count = Shape::keys / 2;
  static constexpr int out_count = Shape::product_v / 2;
  static constexpr int weight_count = Shape::keys / 4;
  static constexpr int bias_count = Shape::biased ? Shape::keys / 4 : 1;
  static constexpr bool bounded = Shape::capped && is_bf16<type>;  ///< scores, as weigh has it

  const typename Shape::problem_type& p;
  barriers<Shape> bars;
  u32 shared;
  const tile* places;                   ///< what the producer says of tiles
  const tensor_map* out_map = nullptr;  ///< where results leave through the copy engine
  int group, lane, row;                 ///< row: this thread's first, within the tile
  ring<Shape::stages> at_k, at_v;
  ring<2> at_q;  // of one stage it counts the phases
  ring<Shape::bias_stages> at_bias;
  ring<Shape::tile_slots> at_tile;
  float factor;                                 ///< of scores that have not been scaled, or of bent ones
  float slope[Shape::alibi ? 2 : 1];            ///< of this thread's rows, in units of the scores
  i32 distance = 0;                             ///< of ALiBi: keys - queries
  const type* bias_row[Shape::biased ? 2 : 1];  ///< key 0 of this thread's rows
  bool bias_pairs = false;                      ///< whether two keys' biases can be loaded at once
  bool plain_scale;
  float tile_scale = 0.0F;   ///< with scales: of the scores of the tile
  float last_factor = 0.0F;  ///< and the factor of the tile before
  i32 before = 0;            ///< blocks of keys that come before the first that this warpgroup's rows see
  i32 behind = 0;            ///< and behind the last
  i32 left_values = 0;       ///< blocks of values to leave out once the one that waits is multiplied

  float out[out_count];
  u32 weights[weight_count];

  __device__ consumer(const typename Shape::problem_type& call, barriers<Shape> b, u32 memory,
                      const tile* tiles, int warpgroup)
      : p{call}, bars{b}, shared{memory}, places{tiles}, group{warpgroup} {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    lane = thread % 32;
    row = 64 * row_group() + thread / 32 * 16 + lane / 4;
    plain_scale = p.scale > 0.0F;
    factor = Shape::capped ? p.soft_cap * log2_e : !plain_scale ? 1.0F : p.scale * log2_e;
    if constexpr (Shape::biased) {
      const auto address = static_cast<u32>(reinterpret_cast<u64>(p.bias));
      const auto strides = static_cast<u32>(p.bias_stride_batch | p.bias_stride_head | p.bias_stride_row);
      bias_pairs = ((address | 2 * strides) & 3) == 0;
    }
  }

  /// What scores are multiplied with.
  [[nodiscard]] __device__ __forceinline__ float scale_now() const {
    if constexpr (Shape::scaled) return tile_scale;
    return p.scale;
  }

  /// The factor of the tile that is written.
  [[nodiscard]] __device__ __forceinline__ float finished_factor() const {
    if constexpr (Shape::scaled) return last_factor;
    return factor;
  }

  /// Takes up the scale of a KV head's keys.
  __device__ __forceinline__ void take_scale(i32 head_kv) {
    if constexpr (Shape::scaled) {
      last_factor = factor;
      tile_scale = p.scale;
      if (p.k_scale != nullptr) tile_scale *= __ldg(p.k_scale + head_kv * p.k_scale_stride);
      plain_scale = tile_scale > 0.0F;
      if constexpr (!Shape::capped) factor = !plain_scale ? 1.0F : tile_scale * log2_e;
    }
  }

  /// What a tile's results are multiplied with.
  [[nodiscard]] __device__ __forceinline__ float value_scale(const tile& t) const {
    if constexpr (Shape::scaled) {
      if (p.v_scale != nullptr) return __ldg(p.v_scale + head_kv_of(t) * p.v_scale_stride);
    }
    return 1.0F;
  }
  [[nodiscard]] __device__ __forceinline__ static i32 head_kv_of(const tile& t) {
    return Shape::split ? t.extra & 0xffff : t.extra;
  }
  /// Which part of the keys a tile sees.
  [[nodiscard]] __device__ __forceinline__ static i32 part_of(const tile& t) {
    return Shape::scaled ? t.extra >> 16 : t.extra;
  }

  /// The warpgroup's place among those that have other rows.
  [[nodiscard]] __device__ __forceinline__ int row_group() const { return Shape::shares_rows ? 0 : group; }

  /// The query of this thread's row r.
  [[nodiscard]] __device__ __forceinline__ i32 query_at(const tile& t, int r) const {
    if constexpr (Shape::extended) return t.begin + token_of<Shape>(p, row + 8 * r);
    return t.begin + row + 8 * r;
  }

  __device__ __forceinline__ void arrive_once(u32 barrier) {
    if (lane == 0) arrive(barrier);
  }

  /// Starts scores = queries keys^T for the stage.
  __device__ __forceinline__ void start_scores(float (&scores)[score_count], int stage) {
    u32 queries =
        shared + static_cast<u32>(stage_q()) * Shape::bytes_q + static_cast<u32>(row_group()) * 64 * 128;
    // More operands than fit into registers, which would all be computed before the loop over blocks.
    if constexpr (Shape::dim > 256) asm volatile("" : "+r"(queries));
    const u64 a = swizzled_operand(queries, 0);
    const u64 b = swizzled_operand(shared + Shape::at_k + static_cast<u32>(stage) * Shape::bytes_k, 0);
#pragma unroll
    for (int d = 0; d < (Shape::dim + 15) / 16; ++d) {
      const u64 inside = static_cast<u64>(d % 4) * (32 >> 4);
      shared_product<type, Shape::keys>::run(scores, a + (d / 4) * (Shape::panel_q >> 4) + inside,
                                             b + (d / 4) * (Shape::panel_k >> 4) + inside, d > 0);
    }
    product_commit();
  }

  /// Starts out += weights values for the stage.
  __device__ __forceinline__ void start_values(int stage) {
    u64 b = swizzled_operand(shared + Shape::at_v + static_cast<u32>(stage) * Shape::bytes_v, Shape::panel_k);
    if constexpr (Shape::shares_rows)
      b += static_cast<u64>(group) * (Shape::columns / 64 * Shape::panel_k >> 4);
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      register_product<type, Shape::product_v>::run(out, weights + 4 * k,
                                                    b + static_cast<u64>(k) * (16 * 128 >> 4));
    }
    product_commit();
  }

  __device__ __forceinline__ void rescale(const row_state& rows) {
    if (!rows.needs_rescale) return;
#pragma unroll
    for (int i = 0; i < out_count; ++i) out[i] *= rows.rescale[i / 2 % 2];
  }

  __device__ __forceinline__ void round_weights(const float (&scores)[score_count]) {
#pragma unroll
    for (int i = 0; i < weight_count; ++i) weights[i] = pack<type>(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ __forceinline__ void prepare_scores(float (&scores)[score_count], const tile& t, i32 n) {
    if constexpr (Shape::capped) {
      bend(scores, __fdividef(scale_now(), p.soft_cap));  // what is outside of the tangent is in `factor`
    }
    if constexpr (Shape::alibi) add_alibi(scores, t, n);
    if (n >= t.full_begin && n < t.full_end) return;
    if constexpr (!Shape::capped && !Shape::alibi && !Shape::biased) {
      if (!plain_scale) {
        const float scale = scale_now() * log2_e;
#pragma unroll
        for (int i = 0; i < score_count; ++i) scores[i] *= scale;
      }
    }
    const i32 start = start_of<Shape>(n, t.keys);
    const i32 mine = start + 2 * (lane % 4);  // key of this thread's first column
    if constexpr (Shape::masked) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        i32 last = query_at(t, r) + t.diagonal + p.right - mine;
        if constexpr (Shape::whole_blocks) last = min(last, t.keys - 1 - mine);
#pragma unroll
        for (int j = 0; j < score_count; j += 4) {
#pragma unroll
          for (int c = 0; c < 2; ++c)
            if (2 * j + c > last) scores[j + 2 * r + c] = -infinity;
        }
      }
    }
    const bool repeats = start < n * Shape::keys;
    if (repeats || (Shape::masked && n < t.full_begin)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        i32 least = n * Shape::keys - mine;
        if constexpr (Shape::masked) least = max(least, query_at(t, r) + t.diagonal - p.left - mine);
#pragma unroll
        for (int j = 0; j < score_count; j += 4) {
#pragma unroll
          for (int c = 0; c < 2; ++c)
            if (2 * j + c < least) scores[j + 2 * r + c] = -infinity;
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(float (&scores)[score_count], const tile& t, i32 n) {
    if (!plain_scale && !Shape::capped) {
#pragma unroll
      for (int i = 0; i < score_count; ++i) scores[i] *= p.scale * log2_e;
    }
    const i32 mine = start_of<Shape>(n, t.keys) + 2 * (lane % 4);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const auto at = static_cast<float>(query_at(t, r) + distance - mine);
#pragma unroll
      for (int j = 0; j < score_count; j += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[j + 2 * r + c];
          score = fmaf(-slope[r], fabsf(at - static_cast<float>(2 * j + c)), score);
        }
      }
    }
  }

  /// Loads the biases of block n, in the order of the scores.
  __device__ __forceinline__ void load_bias(u32 (&bias)[bias_count], i32 start, i32 keys) {
    const i32 mine = start + 2 * (lane % 4);
    if (bias_pairs && start % 2 == 0 && start >= 0 && start + Shape::keys <= keys) {
#pragma unroll
      for (int i = 0; i < bias_count; ++i) bias[i] = load_early(bias_row[i % 2] + mine + i / 2 * 8);
      return;
    }
#pragma unroll
    for (int i = 0; i < bias_count; ++i) {
      bias[i] = 0;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const i32 key = mine + i / 2 * 8 + c;
        if (key >= 0 && key < keys)
          bias[i] |= static_cast<u32>(__ldg(reinterpret_cast<const unsigned short*>(bias_row[i % 2]) + key))
                     << 16 * c;
      }
    }
  }

  /// The same from a tile in shared memory.
  __device__ __forceinline__ void take_bias(u32 (&bias)[bias_count]) {
    wait(bars.full_bias(at_bias.stage), at_bias.phase);
    const u32 base = shared + Shape::at_bias + static_cast<u32>(at_bias.stage) * Shape::bytes_bias +
                     static_cast<u32>(row * 128 + 4 * (lane % 4));
    const u32 swizzle = static_cast<u32>(lane / 4);
#pragma unroll
    for (int i = 0; i < bias_count; ++i) {
      const u32 chunk = static_cast<u32>(i / 2 % 8);
      bias[i] = load_shared(base + static_cast<u32>(i / 16) * Shape::panel_q +
                            static_cast<u32>(i % 2) * (8 * 128) + ((chunk ^ swizzle) << 4));
    }
  }

  __device__ __forceinline__ void leave_bias() {
    arrive_once(bars.empty_bias(at_bias.stage));
    at_bias.advance();
  }

  /// Whether biases come through the copy engine.
  [[nodiscard]] __device__ __forceinline__ bool bias_in_tiles() const {
    if constexpr (Shape::bias_stages > 0) return p.in_tiles != 0;
    return false;
  }

  /// Adds the biases of a block to its scores; `loaded` are those that were loaded early.
  __device__ __forceinline__ void add_bias_of_block(float (&scores)[score_count], u32 (&loaded)[bias_count]) {
    if constexpr (Shape::bias_stages > 0) {
      if (bias_in_tiles()) take_bias(loaded);
    }
    add_bias(scores, loaded);
    if constexpr (Shape::bias_stages > 0) {
      if (bias_in_tiles()) leave_bias();
    }
  }

  __device__ __forceinline__ void add_bias(float (&scores)[score_count], const u32 (&bias)[bias_count]) {
    if (!plain_scale) {
#pragma unroll
      for (int i = 0; i < score_count; ++i) scores[i] *= p.scale * log2_e;
    }
    const float unit = plain_scale ? __fdividef(1.0F, p.scale) : log2_e;
#pragma unroll
    for (int i = 0; i < bias_count; ++i) {
      const float2 both = unpack<type>(bias[i]);
      scores[2 * i] = fmaf(both.x, unit, scores[2 * i]);
      scores[2 * i + 1] = fmaf(both.y, unit, scores[2 * i + 1]);
    }
  }

  /// Clears rows of a block of values: what is not of the sequence may be anything, and 0 * NaN is NaN.
  __device__ __forceinline__ void clear_values(i32 begin, i32 end, int stage) {
    const u32 base = shared + Shape::at_v + static_cast<u32>(stage) * Shape::bytes_v;
    for (i32 i = begin * 8 + static_cast<i32>(threadIdx.x) % 128; i < end * 8; i += 128) {
#pragma unroll
      for (int d = 0; d < Shape::panels_v; ++d) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                         base + static_cast<u32>(d) * Shape::panel_k + static_cast<u32>(i) * 16),
                     "r"(0)
                     : "memory");
      }
    }
    fence_async_proxy();
    named_sync(8 + static_cast<u32>(group), 128);
  }

  __device__ __forceinline__ void take_turn() {
    if constexpr (Shape::ping_pong) named_sync(1 + static_cast<u32>(group), 256);
  }
  __device__ __forceinline__ void pass_turn() {
    if constexpr (Shape::ping_pong)
      named_arrive(1 + (group + 1 == Shape::groups ? 0U : static_cast<u32>(group) + 1), 256);
  }

  [[nodiscard]] __device__ __forceinline__ int stage_q() const {
    return Shape::query_stages == 2 ? at_q.stage : 0;
  }
  [[nodiscard]] __device__ __forceinline__ u32 phase_q() const {
    return Shape::query_stages == 2 ? at_q.phase : static_cast<u32>(at_q.stage);
  }

  __device__ __forceinline__ void leave_queries() {
    arrive_once(bars.empty_q(stage_q()));
    at_q.advance();
  }

  /// Leaves out blocks of keys. They are waited for, since what is let go must have come.
  __device__ __forceinline__ void skip_keys(i32 count, bool started = true) {
#pragma unroll 1
    for (; count > 0; --count) {
      if (started) {
        take_turn();
        pass_turn();
      }
      started = true;
      wait(bars.full_k(at_k.stage), at_k.phase);
      arrive_once(bars.empty_k(at_k.stage));
      at_k.advance();
      if constexpr (Shape::bias_stages > 0) {
        if (bias_in_tiles()) {
          wait(bars.full_bias(at_bias.stage), at_bias.phase);
          leave_bias();
        }
      }
      ++left_values;
    }
  }

  __device__ __forceinline__ void skip_values() {
#pragma unroll 1
    for (; left_values > 0; --left_values) {
      wait(bars.full_v(at_v.stage), at_v.phase);
      arrive_once(bars.empty_v(at_v.stage));
      at_v.advance();
    }
  }

  /// Waits for the next tile. False when there is none.
  __device__ __forceinline__ bool next_tile(tile& t) {
    wait(bars.full_q(stage_q()), phase_q());
    at_tile.advance();
    const tile& given = places[at_tile.stage];
    t.keys = uniform(given.keys);
    t.begin = uniform(given.begin);
    t.diagonal = uniform(given.diagonal);
    t.foreign = uniform(given.foreign);
    tile seen;
    seen.first_block = given.first_block;
    seen.last_block = given.last_block;
    seen.full_begin = given.full_begin;
    seen.full_end = given.full_end;
    if constexpr (Shape::skips) {
      tile mine;
      mine.keys = given.keys;
      mine.diagonal = given.diagonal;
      if constexpr (Shape::extended) {
        const i32 first = max(64 * group, given.first);
        const i32 last = min(64 * group + 63, given.end - 1);
        see<Shape>(p, given.begin + token_of<Shape>(p, first), given.begin + token_of<Shape>(p, last) + 1,
                   mine);
      } else {
        const i32 from = given.begin + 64 * group;
        see<Shape>(p, max(from, given.first), min(from + 64, given.end), mine);
      }
      if constexpr (Shape::split) {
        mine.first_block = max(mine.first_block, seen.first_block);
        mine.last_block = min(mine.last_block, seen.last_block);
      }
      if (seen.first_block >= 0 && mine.first_block < mine.last_block) seen = mine;
      before = uniform(given.last_block - seen.last_block);
      behind = uniform(seen.first_block - given.first_block);
    }
    t.first_block = uniform(seen.first_block);
    t.last_block = uniform(seen.last_block);
    t.full_begin = uniform(seen.full_begin);
    t.full_end = uniform(seen.full_end);
    if constexpr (Shape::scaled) {
      take_scale(t.first_block < 0 ? 0 : uniform(head_kv_of(given)));
      if (!plain_scale) t.full_end = 0;
    }
    if constexpr (Shape::alibi) {
      const float unit = factor == 1.0F ? log2_e : 1.0F / p.scale;
      const i32 head = given.head;
      distance = uniform(given.extra);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        slope[r] =
            t.first_block < 0 ? 0.0F : unit * __ldg(p.alibi_slopes + head + head_of<Shape>(p, row + 8 * r));
      }
    }
    if constexpr (Shape::biased) {
      const type* const from = static_cast<const type*>(p.bias) + given.extra * p.bias_stride_batch +
                               given.head * p.bias_stride_head;
#pragma unroll
      for (int r = 0; r < 2; ++r) bias_row[r] = from + max(t.begin + row + 8 * r, 0) * p.bias_stride_row;
    }
    return t.first_block >= 0;
  }

  /// The scores of block n become weights while the block before it is multiplied. With `Crosses` that is the
  /// last one of the tile before, whose result is in `slot`: it is written, and t and n are the next tile's.
  template <bool Crosses>
  __device__ __forceinline__ void step(const tile& t, i32 n, row_state& rows, int slot) {
    float scores[score_count];
    u32 bias[bias_count];
    if constexpr (Shape::biased) {
      if (!bias_in_tiles()) load_bias(bias, start_of<Shape>(n, t.keys), t.keys);
    }
    if constexpr (Crosses) wait(bars.full_k(at_k.stage), at_k.phase);
    take_turn();
    product_fence();
    start_scores(scores, at_k.stage);
    rescale(rows);
    wait(bars.full_v(at_v.stage), at_v.phase);
    if constexpr (Shape::clears_values && !Crosses) {
      if (n + 1 == t.keys / Shape::keys) clear_values(t.keys % Shape::keys, Shape::keys, at_v.stage);
    }
    pin(out);
    product_fence();
    start_values(at_v.stage);
    pass_turn();
    product_wait<1>();
    pin(scores);
    arrive_once(bars.empty_k(at_k.stage));
    at_k.advance();
    float share[2];
    if constexpr (Crosses) {
      finish_rows(places[slot], rows, share);
      rows = row_state{};
    }
    if constexpr (Shape::biased) add_bias_of_block(scores, bias);
    prepare_scores(scores, t, n);
    weigh<bounded, Crosses>(scores, rows, factor);
    pin(scores);
    // The sums are in the condition for the assembler, which otherwise puts them and the exponentials behind
    // the wait for the products that they should run beside: it does not know that none is negative.
    if (n > t.first_block || rows.sum[0] + rows.sum[1] < 0.0F) wait(bars.full_k(at_k.stage), at_k.phase);
    product_wait<0>();
    pin(out);
    pin(weights);
    arrive_once(bars.empty_v(at_v.stage));
    at_v.advance();
    if constexpr (Crosses) {
      if constexpr (Shape::skips) skip_values();
      write(places[slot], share);
      clear(rows);
    }
    round_weights(scores);
  }

  __device__ __forceinline__ void clear(row_state& rows) {
    rows.needs_rescale = false;
#pragma unroll
    for (int i = 0; i < out_count; ++i) out[i] = 0.0F;
  }

  /// All tiles. The blocks of keys of all of them are one sequence: what follows a tile's last block starts
  /// before its result is written.
  __device__ __forceinline__ void run() {
    tile t;
    if (!next_tile(t)) return;
    i32 n = t.last_block - 1;
    row_state rows;
    {
      float scores[score_count];
      const bool started = Shape::skips && before > 0;
      if constexpr (Shape::skips) {
        skip_keys(before, false);
        if (started) take_turn();
      }
      wait(bars.full_k(at_k.stage), at_k.phase);
      product_fence();
      start_scores(scores, at_k.stage);
      if (started) pass_turn();
      if constexpr (Shape::skips) skip_values();
      product_wait<0>();
      pin(scores);
      arrive_once(bars.empty_k(at_k.stage));
      at_k.advance();
      if constexpr (Shape::biased) {
        u32 bias[bias_count];
        if (!bias_in_tiles()) load_bias(bias, start_of<Shape>(n, t.keys), t.keys);
        add_bias_of_block(scores, bias);
      }
      prepare_scores(scores, t, n);
      weigh<bounded, true>(scores, rows, factor);
      clear(rows);
      round_weights(scores);
      if (n > t.first_block) wait(bars.full_k(at_k.stage), at_k.phase);
    }
    int slot = at_tile.stage;  // of the tile that `out` belongs to
#pragma unroll 1
    while (true) {
#pragma unroll 1
      for (--n; n >= t.first_block; --n) step<false>(t, n, rows, slot);
      if (t.foreign > 0) {
        wait(bars.full_v(at_v.stage), at_v.phase);
        clear_values(0, t.foreign, at_v.stage);
      }
      if constexpr (Shape::clears_values) {
        if (n + 1 == t.keys / Shape::keys) {
          wait(bars.full_v(at_v.stage), at_v.phase);
          clear_values(t.keys % Shape::keys, Shape::keys, at_v.stage);
        }
      }
      if constexpr (Shape::skips) skip_keys(behind);
      leave_queries();
      if (!next_tile(t)) break;
      if constexpr (Shape::skips) skip_keys(before);
      n = t.last_block - 1;
      step<true>(t, n, rows, slot);
      slot = at_tile.stage;
    }
    rescale(rows);
    wait(bars.full_v(at_v.stage), at_v.phase);
    pin(out);
    product_fence();
    start_values(at_v.stage);
    product_wait<0>();
    pin(out);
    pin(weights);
    if constexpr (Shape::skips) {
      arrive_once(bars.empty_v(at_v.stage));
      at_v.advance();
      skip_values();
    }
    float share[2];
    finish_rows(places[slot], rows, share);
    write(places[slot], share);
  }

  /// Writes the LSE; `share` is what makes an output of a sum.
  __device__ __forceinline__ void finish_rows(const tile& t, const row_state& rows, float (&share)[2]) {
    const i32 here = Shape::extended ? row : t.begin + row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      if constexpr (Shape::extended) {
        finish_extended_row(t, here + 8 * r, rows.maximum[r] * finished_factor(), sum, share[r]);
        if constexpr (Shape::scaled) share[r] *= value_scale(t);
        continue;
      }
      share[r] = sum > 0.0F ? __fdividef(1.0F, sum) : 0.0F;
      if ((p.has & has_lse) && lane % 4 == 0 && here + 8 * r >= t.first && here + 8 * r < t.end) {
        p.lse[t.lse + here + 8 * r] =
            sum > 0.0F ? fmaf(rows.maximum[r], factor, log2f(sum)) * ln_2 : -infinity;
      }
    }
  }

  /// The same of a row that may have a sink, counted in the tile; `maximum` is in units of log2.
  __device__ __forceinline__ void finish_extended_row(const tile& t, i32 at, float maximum, float sum,
                                                      float& share) {
    const i32 head = head_of<Shape>(p, at);
    const bool inside = at >= t.first && at < t.end;
    const float seen = sum > 0.0F ? maximum + log2f(sum) : -infinity;
    if constexpr (Shape::split) {
      share = sum > 0.0F ? __fdividef(1.0F, sum) : 0.0F;
      if (lane % 4 == 0 && inside && group == row_group()) p.partial_lse[partial_row(t, at)] = seen;
      return;
    }
    float all = seen;
    if (p.sinks != nullptr) {  // from the larger of the two, so that nothing overflows
      const float sink = inside ? __ldg(p.sinks + t.head + head) * log2_e : -infinity;
      const float most = fmaxf(seen, sink);
      if (most > -infinity) all = most + log2f(1.0F + exp2f(fminf(seen, sink) - most));
    }
    share = sum > 0.0F ? exp2f(maximum - all) : 0.0F;
    if ((p.has & has_lse) && lane % 4 == 0 && inside && group == row_group())
      p.lse[t.lse + head * p.lse_stride_head + t.begin + token_of<Shape>(p, at)] = all * ln_2;
  }

  /// The first of this warpgroup's columns of the result.
  [[nodiscard]] __device__ __forceinline__ int first_column() const {
    return Shape::shares_rows ? group * Shape::columns : 0;
  }

  /// The row of a part's results.
  [[nodiscard]] __device__ __forceinline__ i64 partial_row(const tile& t, i32 at) const {
    const i64 rows = static_cast<i64>(p.batch * p.heads) * p.seqlen_q;
    return part_of(t) * rows + t.lse + head_of<Shape>(p, at) * p.seqlen_q + t.begin + token_of<Shape>(p, at);
  }

  /// Writes a part's result.
  __device__ __forceinline__ void write_partial(const tile& t, const float (&share)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 at = row + 8 * r;
      if (at < t.first || at >= t.end) continue;
      float* const to = p.partial + partial_row(t, at) * Shape::dim_v + first_column() + 2 * (lane % 4);
#pragma unroll
      for (int j = 0; j < Shape::columns / 8; ++j) {
        const int i = 4 * j + 2 * r;
        *reinterpret_cast<float2*>(to + 8 * j) = make_float2(out[i] * share[r], out[i + 1] * share[r]);
      }
    }
  }

  /// Writes this warp's rows through its own part of the buffer for results, which the copy engine reads
  /// while the warp goes on. False where the tile has rows that are not to be written. What decides and what
  /// the copy engine gets are in uniform registers: otherwise the products' operands no longer are either.
  __device__ __forceinline__ bool copy_out(const tile& t, const float (&share)[2]) {
    if (uniform(t.begin - t.first + t.end - t.first) != Shape::rows) return false;
    const i32 at = 64 * group + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    const auto buffer =
        static_cast<u32>(uniform(static_cast<i32>(shared + Shape::at_out) + at * (128 * Shape::panels_v)));
    wait_bulk_reads();
    __syncwarp();
    const auto thread = static_cast<u32>(lane);
    const u32 to = buffer + thread % 16 * 128 + ((thread / 16) ^ (thread % 8)) * 16;
#pragma unroll
    for (int j = 0; j < Shape::columns / 16; ++j) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack<type>(out[8 * j + 2 * i] * share[i % 2], out[8 * j + 2 * i + 1] * share[i % 2]);
      store_matrices((to ^ static_cast<u32>(j % 4 * 32)) + static_cast<u32>(j / 4) * (16 * 128), words);
    }
    const i32 packed = (p.has & has_cu_q) != 0 ? -1 : 0;
    const i32 token = uniform(t.begin + at + (t.extra & packed));
    const i32 head = uniform(t.head);
    const i32 entry = uniform(t.extra & ~packed);
    fence_async_proxy();
    __syncwarp();
    if (elect_one()) {
#pragma unroll
      for (int d = 0; d < Shape::panels_v; ++d)
        store_box(*out_map, buffer + static_cast<u32>(d) * (16 * 128), 64 * d, token, head, entry);
      commit_bulk_group();
    }
    return true;
  }

  __device__ __forceinline__ void write(const tile& t, const float (&share)[2]) {
    if constexpr (Shape::split) {
      write_partial(t, share);
      return;
    }
    if constexpr (Shape::copies_out) {
      if (copy_out(t, share)) return;
    }
    const i32 here = Shape::extended ? row : t.begin + row;
    const i32 least = t.first - here;
    const i32 most = t.end - here;
    auto* const to = static_cast<type*>(p.out) + t.out + (Shape::extended ? 0 : here * p.out_stride_token);
    const auto row_at = [&](int r) {
      if constexpr (!Shape::extended) return to + 8 * r * p.out_stride_token;
      const i32 at = here + 8 * r;
      return to + (t.begin + token_of<Shape>(p, at)) * p.out_stride_token +
             head_of<Shape>(p, at) * p.out_stride_head + first_column();
    };
    const int quad = lane % 4;
    // Four threads hold 32 columns of a row as 4 x 4 pairs; transposed, each has 8 columns in a row.
#pragma unroll
    for (int j = 0; j < Shape::columns / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        u32 word[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = 16 * j + 4 * k + 2 * r;
          word[k] = pack<type>(out[i] * share[r], out[i + 1] * share[r]);
        }
        transpose_words(word, quad);
        if (8 * r >= least && 8 * r < most) {
          *reinterpret_cast<uint4*>(row_at(r) + 32 * j + 8 * quad) =
              make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    }
    if constexpr (Shape::columns % 32 != 0) {  // 8, 16 or 24 columns are left
#pragma unroll
      for (int i = Shape::columns / 32 * 16; i < Shape::columns / 2; i += 2) {
        const int r = i / 2 % 2;
        if (8 * r >= least && 8 * r < most) {
          *reinterpret_cast<u32*>(row_at(r) + i / 4 * 8 + 2 * quad) =
              pack<type>(out[i] * share[r], out[i + 1] * share[r]);
        }
      }
    }
  }
};

}  // namespace hopper
