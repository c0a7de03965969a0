// SPDX-License-Identifier: MIT
// Attention forward on Hopper in e4m3: the sizes of a kernel, and what a warpgroup that multiplies does.
#pragma once

#include "hopper_e4m3_ptx.hpp"
#include "hopper_forward_softmax.hpp"
#include "hopper_forward_tiles.hpp"

namespace hopper {

/// With queries, keys and values in e4m3.
struct e4m3_problem : problem {
  const float* q_scale;  ///< of head h at q_scale[h * q_scale_stride]; null: 1
  const float* k_scale;  ///< of KV head h likewise
  const float* v_scale;
  i64 q_scale_stride;
  i64 k_scale_stride;
  i64 v_scale_stride;
  const unsigned char* values;  ///< as hopper_e4m3_values.cu leaves them
  i64 keys_stride;              ///< of each head's values; a multiple of a block's keys
};

/// Sizes of a kernel whose results are in `Type`.
template <class Type, int Dim, int Groups, int Keys, int Stages, bool Masked>
struct e4m3_shape : shape<Type, Dim, Dim, Groups, Keys, Stages, Masked, false, true, 2> {
  using base = shape<Type, Dim, Dim, Groups, Keys, Stages, Masked, false, true, 2>;
  using problem_type = e4m3_problem;
  static constexpr bool whole_blocks = true;
  static constexpr bool skips = false;
  static constexpr int panel_width = Dim < 128 ? Dim : 128;  ///< bytes
  static constexpr int panels = Dim / panel_width;
  static constexpr bool tight = Groups == 2;
  static constexpr u32 registers = Groups == 3 ? 160 : 240;
  static constexpr u32 producer_registers = Groups == 3 ? 32 : 24;
  static constexpr u32 panel_q = base::rows * panel_width;
  static constexpr u32 panel_k = Keys * panel_width;
  static constexpr u32 bytes_q = panels * panel_q;
  static constexpr u32 bytes_k = Keys * Dim;
  static constexpr u32 bytes_v = Keys * Dim;
  static constexpr u32 at_k = 2 * bytes_q;
  static constexpr u32 at_v = at_k + Stages * bytes_k;
  static constexpr u32 at_barriers = at_v + Stages * bytes_v;
  static constexpr u32 at_tiles = at_barriers + 64 * ((2 + 2 * Stages + 3) / 4);
  static constexpr u32 shared_bytes = at_tiles + base::tile_slots * 64;
  static_assert(Keys % 32 == 0 && Dim % 64 == 0);
};

/// A row's weights are 2^e4m3_exponent times as large as where its maximum is the anchor, and by up to
/// 2^e4m3_slack larger while the maximum is above it: 2^8.5 is below 448, and what is 2^-15 of the maximum is
/// not yet rounded to zero.
inline constexpr float e4m3_exponent = 6.0F;
inline constexpr float e4m3_slack = 2.5F;

/// What a consumer warpgroup does with the tiles that it shares with the others. The order of products and
/// exponentials is that of hopper_forward_worker.hpp.
template <class Shape>
struct e4m3_consumer {
  using type = typename Shape::type;
  static constexpr int score_count = Shape::keys / 2;
  static constexpr int out_count = Shape::dim / 2;
  static constexpr int weight_count = Shape::keys / 8;

  const e4m3_problem& p;
  barriers<Shape> bars;
  u32 shared;
  const tile* places;
  int group, lane, row;  ///< row: this thread's first, within the tile
  ring<Shape::stages> at_k, at_v;
  ring<2> at_q;
  ring<Shape::tile_slots> at_tile;
  float factor = 1.0F;       ///< brings scores to units of log2
  float last_factor = 1.0F;  ///< of the tile before
  float unit = 0.0F;         ///< where scores are multiplied first: with this; else 0

  float out[out_count];
  u32 weights[weight_count];

  __device__ e4m3_consumer(const e4m3_problem& call, barriers<Shape> b, u32 memory, const tile* tiles,
                           int warpgroup)
      : p{call}, bars{b}, shared{memory}, places{tiles}, group{warpgroup} {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    lane = thread % 32;
    row = 64 * group + thread / 32 * 16 + lane / 4;
  }

  __device__ __forceinline__ void arrive_once(u32 barrier) {
    if (lane == 0) arrive(barrier);
  }

  /// Starts scores = queries keys^T for the stage.
  __device__ __forceinline__ void start_scores(float (&scores)[score_count], int stage) {
    constexpr u32 width = Shape::panel_width;
    const u64 a = swizzled_rows<width>(shared + static_cast<u32>(at_q.stage) * Shape::bytes_q +
                                       static_cast<u32>(group) * 64 * width);
    const u64 b = swizzled_rows<width>(shared + Shape::at_k + static_cast<u32>(stage) * Shape::bytes_k);
    constexpr int steps = Shape::panel_width / 32;
#pragma unroll
    for (int d = 0; d < Shape::dim / 32; ++d) {
      const u64 inside = static_cast<u64>(d % steps) * (32 >> 4);
      e4m3_shared_product<Shape::keys>::run(scores, a + (d / steps) * (Shape::panel_q >> 4) + inside,
                                            b + (d / steps) * (Shape::panel_k >> 4) + inside, d > 0);
    }
    product_commit();
  }

  /// Starts out += weights values for the stage.
  __device__ __forceinline__ void start_values(int stage) {
    const u64 b =
        plain_pieces<16 * Shape::dim>(shared + Shape::at_v + static_cast<u32>(stage) * Shape::bytes_v);
#pragma unroll
    for (int k = 0; k < Shape::keys / 32; ++k) {
      e4m3_register_product<Shape::dim>::run(out, weights + 4 * k,
                                             b + static_cast<u64>(k) * (32 * Shape::dim >> 4));
    }
    product_commit();
  }

  __device__ __forceinline__ void rescale(const row_state& rows) {
    if (!rows.needs_rescale) return;
#pragma unroll
    for (int i = 0; i < out_count; ++i) out[i] *= rows.rescale[i / 2 % 2];
  }

  /// In the order of keys that hopper_e4m3_values.cu gives the values.
  __device__ __forceinline__ void round_weights(const float (&scores)[score_count]) {
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = 8 * k + 2 * r;
        weights[4 * (k / 2) + 2 * (k % 2) + r] =
            pack_e4m3(scores[i], scores[i + 1], scores[i + 4], scores[i + 5]);
      }
    }
  }

  __device__ __forceinline__ void prepare_scores(float (&scores)[score_count], const tile& t, i32 n) {
    if (n >= t.full_begin && n < t.full_end) return;
    if (unit != 0.0F) {
#pragma unroll
      for (int i = 0; i < score_count; ++i) scores[i] *= unit;
    }
    const i32 mine = n * Shape::keys + 2 * (lane % 4);  // key of this thread's first column
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      i32 last = t.keys - 1 - mine;
      i32 least = -1;
      if constexpr (Shape::masked) {
        const i32 diagonal = t.begin + row + 8 * r + t.diagonal - mine;
        last = min(last, diagonal + p.right);
        least = diagonal - p.left;
      }
#pragma unroll
      for (int j = 0; j < score_count; j += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (2 * j + c > last || (Shape::masked && 2 * j + c < least)) scores[j + 2 * r + c] = -infinity;
      }
    }
  }

  /// Scores to weights.
  __device__ __forceinline__ void weigh(float (&scores)[score_count], row_state& rows) {
    float most[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r][0] = fmaxf(scores[2 * r], scores[2 * r + 4]);
      most[r][1] = fmaxf(scores[2 * r + 1], scores[2 * r + 5]);
    }
#pragma unroll
    for (int j = 8; j < score_count; j += 4) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        most[r][0] = fmaxf(most[r][0], scores[j + 2 * r]);
        most[r][1] = fmaxf(most[r][1], scores[j + 2 * r + 1]);
      }
    }
    bool exceeds = false;
    float now[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      now[r] = fmaxf(most[r][0], most[r][1]);
      now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 1));
      now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 2));
      exceeds = exceeds || fmaf(rows.maximum[r], factor, e4m3_slack) < now[r] * factor;
    }
    rows.needs_rescale = __any_sync(0xffffffff, exceeds);
    if (rows.needs_rescale) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float next = fmaxf(rows.maximum[r], now[r]);
        const float anchor = next == -infinity ? 0.0F : next;
        rows.rescale[r] = exp2_approximate((rows.maximum[r] - anchor) * factor);
        rows.sum[r] *= rows.rescale[r];
        rows.maximum[r] = next;
      }
    }
    float sum[2][2] = {};
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      shift[r] = rows.maximum[r] == -infinity ? 0.0F : fmaf(rows.maximum[r], factor, -e4m3_exponent);
#pragma unroll
    for (int j = 0; j < score_count; j += 4) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[j + 2 * r + c];
          score = exp2_approximate(fmaf(score, factor, -shift[r]));
          sum[r][c] += score;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) rows.sum[r] += sum[r][0] + sum[r][1];
  }

  __device__ __forceinline__ void take_turn() {
    named_sync(1 + static_cast<u32>(group), 256);
  }
  __device__ __forceinline__ void pass_turn() {
    named_arrive(1 + (group + 1 == Shape::groups ? 0U : static_cast<u32>(group) + 1), 256);
  }

  __device__ __forceinline__ void leave_queries() {
    arrive_once(bars.empty_q(at_q.stage));
    at_q.advance();
  }

  /// Waits for the next tile. False when there is none.
  __device__ __forceinline__ bool next_tile(tile& t) {
    wait(bars.full_q(at_q.stage), at_q.phase);
    at_tile.advance();
    const tile& given = places[at_tile.stage];
    t.keys = uniform(given.keys);
    t.begin = uniform(given.begin);
    t.diagonal = uniform(given.diagonal);
    t.first_block = uniform(given.first_block);
    t.last_block = uniform(given.last_block);
    t.full_begin = uniform(given.full_begin);
    t.full_end = uniform(given.full_end);
    last_factor = factor;
    if (t.first_block >= 0) {
      float scale = p.scale;
      if (p.q_scale != nullptr) scale *= __ldg(p.q_scale + given.head * p.q_scale_stride);
      if (p.k_scale != nullptr) scale *= __ldg(p.k_scale + given.extra * p.k_scale_stride);
      const bool plain = scale > 0.0F;
      factor = plain ? scale * log2_e : 1.0F;
      unit = plain ? 0.0F : scale * log2_e;
      if (!plain) t.full_end = 0;
    }
    return t.first_block >= 0;
  }

  /// The scores of block n become weights while the block before it is multiplied. With `Crosses` that is the
  /// last one of the tile before, whose result is in `slot`: it is written, and t and n are the next tile's.
  template <bool Crosses>
  __device__ __forceinline__ void step(const tile& t, i32 n, row_state& rows, int slot) {
    float scores[score_count];
    if constexpr (Crosses) wait(bars.full_k(at_k.stage), at_k.phase);
    take_turn();
    product_fence();
    start_scores(scores, at_k.stage);
    rescale(rows);
    wait(bars.full_v(at_v.stage), at_v.phase);
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
    prepare_scores(scores, t, n);
    weigh(scores, rows);
    pin(scores);
    // As in hopper_forward_worker.hpp, the sums keep this wait behind the exponentials.
    if (n > t.first_block || rows.sum[0] + rows.sum[1] < 0.0F) wait(bars.full_k(at_k.stage), at_k.phase);
    product_wait<0>();
    pin(out);
    pin(weights);
    arrive_once(bars.empty_v(at_v.stage));
    at_v.advance();
    if constexpr (Crosses) {
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

  /// All tiles, as in hopper_forward_worker.hpp.
  __device__ __forceinline__ void run() {
    tile t;
    if (!next_tile(t)) return;
    i32 n = t.last_block - 1;
    row_state rows;
    {
      float scores[score_count];
      wait(bars.full_k(at_k.stage), at_k.phase);
      product_fence();
      start_scores(scores, at_k.stage);
      product_wait<0>();
      pin(scores);
      arrive_once(bars.empty_k(at_k.stage));
      at_k.advance();
      prepare_scores(scores, t, n);
      weigh(scores, rows);
      clear(rows);
      round_weights(scores);
      if (n > t.first_block) wait(bars.full_k(at_k.stage), at_k.phase);
    }
    int slot = at_tile.stage;  // of the tile that `out` belongs to
#pragma unroll 1
    while (true) {
#pragma unroll 1
      for (--n; n >= t.first_block; --n) step<false>(t, n, rows, slot);
      leave_queries();
      if (!next_tile(t)) break;
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
    float share[2];
    last_factor = factor;
    finish_rows(places[slot], rows, share);
    write(places[slot], share);
  }

  /// Writes the LSE; `share` is what makes an output of a sum.
  __device__ __forceinline__ void finish_rows(const tile& t, const row_state& rows, float (&share)[2]) {
    const i32 here = t.begin + row;
    const float value_scale = p.v_scale != nullptr ? __ldg(p.v_scale + t.extra * p.v_scale_stride) : 1.0F;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      share[r] = sum > 0.0F ? __fdividef(value_scale, sum) : sum == 0.0F ? 0.0F : sum;
      if ((p.has & has_lse) && lane % 4 == 0 && here + 8 * r >= t.first && here + 8 * r < t.end) {
        p.lse[t.lse + here + 8 * r] =
            sum > 0.0F    ? (fmaf(rows.maximum[r], last_factor, log2f(sum)) - e4m3_exponent) * ln_2
            : sum == 0.0F ? -infinity
                          : sum;
      }
    }
  }

  __device__ __forceinline__ void write(const tile& t, const float (&share)[2]) {
    const i32 here = t.begin + row;
    store_rows<type>(out, share, static_cast<type*>(p.out) + t.out + here * p.out_stride_token,
                     p.out_stride_token, t.first - here, t.end - here, lane % 4);
  }
};

}  // namespace hopper
