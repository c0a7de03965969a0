// SPDX-License-Identifier: MIT
// Attention backward on Hopper: dk, dv and the sums of dq in five products a pair of tiles. Semantics:
// operators/attention_backward.hpp. What was tried: NOTES-hopper-backward.md.
//
// A block owns 128 keys, two warpgroups 64 each, and goes through the queries of all heads that share them;
// one warp feeds it through the copy engine. Scores are computed transposed, keys along the rows of a
// product, as in FlashAttention-3, so that weights and slopes feed dv and dk from registers. Only the slopes
// go to shared memory, for dq, whose sum in memory they are added to by bulk copies. Where every run is to
// give the same bits, a warp of its own adds them, in a fixed order of the blocks; FlashAttention-4 orders
// them so too.
//
// At head dim 64 a step has 128 queries, in two parts: the products of one run beside the exponentials of the
// other. Elsewhere it has 64.
//
// dq is multiplied one step late: then the other warpgroup's slopes have long come, and the two need not meet
// in a step but may be half a step apart, one in its exponentials while the other multiplies.
#include "hopper_backward_order.hpp"
#include "hopper_backward_worker.hpp"
#include "hopper_packed_maps.hpp"

namespace hopper {

/// What a warpgroup does with its half of each tile's keys. `MakesDq`: it makes dq, of all columns where
/// `Shape::single`, else its share.
template <class Shape, bool MakesDq = true>
struct key_worker : backward_worker<Shape> {
  using worker = backward_worker<Shape>;
  using typename worker::share, typename worker::type;
  using worker::arrive_once, worker::bars, worker::clear_rows, worker::count, worker::dout_at, worker::filled,
      worker::first_whole, worker::group, worker::keys_at, worker::last_query, worker::last_whole,
      worker::memory, worker::p, worker::queries_at, worker::shared, worker::slopes_address, worker::taken,
      worker::this_tile, worker::tiles, worker::warp, worker::weigh, worker::words;
  static constexpr int pieces = Shape::single ? 2 : 1;  ///< shares of dq that this warpgroup makes
  static constexpr int dq_columns = pieces * share::columns;
  static constexpr int dq_count = pieces * share::count;
  float dk[Shape::dim / 2];
  float dv[Shape::dim_v / 2];
  u32 slopes[words];
  u32 keys[Shape::held_keys ? Shape::dim / 4 : 1];
  u32 values[Shape::held_values ? Shape::dim_v / 4 : 1];

  using worker::worker;

  /// Starts what this warpgroup makes of dq = slopes keys.
  __device__ __forceinline__ void start_dq(float (&dq)[dq_count]) {
    static_assert(Shape::single || share::by_rows || share::columns % 64 == 0,
                  "a share begins inside a panel");
    constexpr u32 columns_at = share::columns / 64 * Shape::panel_k;
    const u64 a = swizzled_operand(shared + Shape::at_slopes +
                                       worker::template stage_of<2>(taken - 1) * Shape::bytes_slopes +
                                       (share::by_rows ? static_cast<u32>(group) * 64 * 128 : 0),
                                   0);
    const u64 b = swizzled_operand(
        keys_at() + (share::by_rows || Shape::single ? 0 : static_cast<u32>(group) * columns_at),
        Shape::panel_k);
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      mixed_product<type, dq_columns>::run(
          dq, a + (k / 4) * (Shape::panel_q >> 4) + static_cast<u64>(k % 4) * (32 >> 4),
          b + static_cast<u64>(k) * (16 * 128 >> 4), k > 0);
    }
    product_commit();
  }

  [[nodiscard]] __device__ __forceinline__ u32 dq_slot(int piece) const {
    return static_cast<u32>(4 * (Shape::single ? piece : group) + warp) * share::warp_bytes;
  }

  /// Lays down the warp's part of dq.
  __device__ __forceinline__ void store_dq(const float (&dq)[dq_count]) {
    if constexpr (Shape::ordered) {
      wait(bars.empty_sums(), worker::template phase_of<1>(taken - 1) ^ 1);
    } else {
      if (lane_now() == 0) wait_bulk_reads();  // of the step before
      __syncwarp();
    }
#pragma unroll
    for (int piece = 0; piece < pieces; ++piece) {
      auto* const to = reinterpret_cast<float4*>(memory + Shape::at_dq + dq_slot(piece)) + lane_now();
#pragma unroll
      for (int i = 0; i < share::count / 4; ++i) {
        const float* const four = dq + piece * share::count + 4 * i;
        to[32 * i] = make_float4(four[0], four[1], four[2], four[3]);
      }
    }
  }

  /// Adds it to the sums of its tile. To be called with products under way: the fence waits for the stores.
  __device__ __forceinline__ void add_dq(i32 tile) {
    fence_async_proxy();
    __syncwarp();
    if constexpr (Shape::ordered) {
      arrive_once(bars.full_sums());
    } else if (lane_now() == 0) {
#pragma unroll
      for (int piece = 0; piece < pieces; ++piece) {
        const u32 slot = dq_slot(piece);
        add_floats(p.dq_sum + static_cast<i64>(tile) * (Shape::queries * Shape::dim) + slot / 4,
                   shared + Shape::at_dq + slot, share::warp_bytes);
      }
      commit_bulk_group();
    }
  }

  /// Slopes of weights and dP, rounded, in registers and in shared memory, of a part of the queries.
  __device__ __forceinline__ void slope(const float (&s)[count], const float (&dp)[count],
                                        const float2 (&delta)[count / 4], u32 (&slopes)[words], u32 row) {
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = 4 * j + 2 * r;
        slopes[i / 2] = pack<type>(s[i] * (dp[i] - delta[j].x), s[i + 1] * (dp[i + 1] - delta[j].y));
      }
    }
    wait(bars.empty_slopes(worker::template stage_of<2>(taken)), worker::template phase_of<2>(taken) ^ 1);
    const u32 to = slopes_address() + row * 128;
#pragma unroll
    for (int k = 0; k < Shape::part / 16; ++k) store_transposed(to + k * 16 * 128, slopes + 4 * k);
  }

  /// One tile of queries. Beside it dq of the tile before is made, and the one that was laid down before
  /// that, of tile `stored`, is added up; -1: there is none.
  template <bool First>
  __device__ __forceinline__ void step(i32 first_query, i32 stored) {
    float s[count], dp[count];
    wait_queries(first_query);
    product_fence();
    start_scores(s, 0);
    wait_dout<First>();
    product_fence();
    start_dp(dp, 0);
    if constexpr (First && Shape::held_values) arrive_once(bars.empty_v());  // the product has its operand
    if constexpr (!First && MakesDq) {
      if (stored >= 0) add_dq(stored);
    }
    u32 weights[words];
    {
      float2 lse[count / 4];
      if constexpr (!Shape::capped)
        worker::template load_row<0>(lse, Shape::at_lse);  // the cap needs the registers
      product_wait<1>();
      pin(s);
      if constexpr (Shape::capped) worker::template load_row<0>(lse, Shape::at_lse);
      worker::template load_row<1>(lse, Shape::at_lse);
      weigh(s, weights, first_query, lse);
    }
    float2 delta[count / 4];
    worker::template load_row<0>(delta, Shape::at_delta);
    pin(weights);
    product_fence();
    worker::template start_gradient<Shape::dim_v>(dv, weights, dout_at());
    worker::template load_row<1>(delta, Shape::at_delta);
    product_wait<1>();
    pin(dp);
    slope(s, dp, delta, slopes, 0);
    pin(slopes);
    if constexpr (Shape::single && MakesDq && !First) {
      product_wait<0>();  // dv: no registers for its weights beside dq
      pin(weights);
      pin(dv);
    }
    float dq[dq_count];
    if constexpr (!First && MakesDq) start_former_dq(dq);
    product_fence();
    worker::template start_gradient<Shape::dim>(dk, slopes, queries_at());
    announce_slopes();
    if constexpr (!First && MakesDq) end_former_dq(dq);
    // Before the next products: they could not have the registers of these slopes.
    product_wait<0>();
    pin(weights);
    pin(slopes);
    leave_queries();
  }

  /// The same for a tile of two parts: the products of one run beside the exponentials of the other. `Skip`:
  /// the first part sees none of this warpgroup's keys.
  template <bool First, bool Skip>
  __device__ __forceinline__ void step_of_two(i32 first_query, i32 stored) {
    constexpr int part = Shape::part;
    float s[count], later_s[count], dp[count];
    wait_queries(first_query);
    product_fence();
    if constexpr (!Skip) start_scores(s, 0);
    start_scores(later_s, part);
    wait_dout<First>();
    product_fence();
    if constexpr (!Skip) start_dp(dp, 0);
    if constexpr (First && !Skip && Shape::held_values) arrive_once(bars.empty_v());
    if constexpr (!First) {
      if (stored >= 0) add_dq(stored);
    }
    u32 weights[words], later_weights[words], later_slopes[words];
    float2 delta[count / 4];
    if constexpr (Skip) {
      clear_slopes();
    } else {
      {
        float2 lse[count / 4];
        worker::template load_row<0>(lse, Shape::at_lse);
        product_wait<2>();
        pin(s);
        worker::template load_row<1>(lse, Shape::at_lse);
        weigh(s, weights, first_query, lse);
      }
      worker::template load_row<0>(delta, Shape::at_delta);
      pin(weights);
      product_fence();
      worker::template start_gradient<Shape::dim_v>(dv, weights, dout_at());
      worker::template load_row<1>(delta, Shape::at_delta);
      product_wait<1>();
      pin(later_s);
      pin(dp);
      slope(s, dp, delta, slopes, 0);
      pin(slopes);
    }
    product_fence();
    float later_dp[count];
    start_dp(later_dp, part);
    if constexpr (First && Skip && Shape::held_values) arrive_once(bars.empty_v());
    if constexpr (!Skip) worker::template start_gradient<Shape::dim>(dk, slopes, queries_at());
    {
      float2 lse[count / 4];
      worker::template load_row<0>(lse, Shape::at_lse + 4 * part);
      worker::template load_row<1>(lse, Shape::at_lse + 4 * part);
      if constexpr (Skip) {
        product_wait<1>();
        pin(later_s);
      }
      weigh(later_s, later_weights, first_query + part, lse);
    }
    worker::template load_row<0>(delta, Shape::at_delta + 4 * part);
    pin(later_weights);
    product_fence();
    worker::template start_gradient<Shape::dim_v>(dv, later_weights, dout_at() + part * 128);
    worker::template load_row<1>(delta, Shape::at_delta + 4 * part);
    if constexpr (Skip) {
      product_wait<1>();
    } else {
      product_wait<2>();
      pin(weights);
    }
    pin(later_dp);
    slope(later_s, later_dp, delta, later_slopes, part);
    pin(later_slopes);
    float dq[dq_count];
    if constexpr (!First) start_former_dq(dq);
    product_fence();
    worker::template start_gradient<Shape::dim>(dk, later_slopes, queries_at() + part * 128);
    announce_slopes();
    if constexpr (!First) end_former_dq(dq);
    product_wait<0>();
    if constexpr (!Skip) pin(slopes);
    pin(later_weights);
    pin(later_slopes);
    leave_queries();
  }

  /// Those of the first part are zero.
  __device__ __forceinline__ void clear_slopes() {
    wait(bars.empty_slopes(worker::template stage_of<2>(taken)), worker::template phase_of<2>(taken) ^ 1);
    const u32 zeros[4] = {};
    const u32 to = slopes_address();
#pragma unroll
    for (int k = 0; k < Shape::part / 16; ++k) store_transposed(to + k * 16 * 128, zeros);
  }

  /// In place of the first step where causal masks leave this warpgroup nothing of it: its slopes are zero.
  __device__ __forceinline__ void skip_step() {
    wait(bars.full_v(), worker::template phase_of<1>(filled));
    if constexpr (Shape::held_values) {
      worker::hold(values, shared + Shape::at_v);
      __syncwarp();
      arrive_once(bars.empty_v());
    }
    clear_slopes();
    announce_slopes();
    leave_queries();
  }

  template <bool First>
  __device__ __forceinline__ void any_step(i32 first_query, i32 stored) {
    if constexpr (Shape::queries > Shape::part) {
      step_of_two<First, false>(first_query, stored);
    } else {
      step<First>(first_query, stored);
    }
  }

  __device__ __forceinline__ void wait_queries(i32 first_query) {
    wait(bars.full_q(worker::template stage_of<Shape::stages>(taken)),
         worker::template phase_of<Shape::stages>(taken));
    if (first_query + Shape::queries > last_query) clear_queries(last_query - first_query);
  }

  /// Starts scores of the part of the queries that begins with the `row`-th.
  __device__ __forceinline__ void start_scores(float (&s)[count], u32 row) {
    worker::template start_scores<Shape::dim, Shape::held_keys>(s, keys, keys_at(), queries_at() + row * 128);
  }

  __device__ __forceinline__ void start_dp(float (&dp)[count], u32 row) {
    worker::template start_scores<Shape::dim_v, Shape::held_values>(dp, values, shared + Shape::at_v,
                                                                    dout_at() + row * 128);
  }

  template <bool First>
  __device__ __forceinline__ void wait_dout() {
    if constexpr (First) {
      wait(bars.full_v(), worker::template phase_of<1>(filled));
      if constexpr (Shape::held_values) worker::hold(values, shared + Shape::at_v);
    }
    wait(bars.full_do(worker::template stage_of<Shape::stages>(taken)),
         worker::template phase_of<Shape::stages>(taken));
  }

  __device__ __forceinline__ void start_former_dq(float (&dq)[dq_count]) {
    wait(bars.full_slopes(worker::template stage_of<2>(taken - 1)), worker::template phase_of<2>(taken - 1));
    product_fence();
    start_dq(dq);
  }

  /// With one product more under way.
  __device__ __forceinline__ void end_former_dq(float (&dq)[dq_count]) {
    product_wait<1>();
    pin(dq);
    leave_slopes();
    store_dq(dq);
  }

  /// Hands the slopes over. To be called with products under way: the fence waits for the stores.
  __device__ __forceinline__ void announce_slopes() {
    fence_async_proxy();
    __syncwarp();
    arrive_once(bars.full_slopes(worker::template stage_of<2>(taken)));
  }

  __device__ __forceinline__ void leave_queries() {
    __syncwarp();  // all lanes have read their rows' numbers
    arrive_once(bars.empty_do(worker::template stage_of<Shape::stages>(taken)));
    arrive_once(bars.empty_q(worker::template stage_of<Shape::stages>(taken)));
    ++taken;
  }

  __device__ __forceinline__ void leave_slopes() {
    arrive_once(bars.empty_slopes(worker::template stage_of<2>(taken - 1)));
  }

  __device__ __forceinline__ void clear_queries(i32 live) {
    wait(bars.full_do(worker::template stage_of<Shape::stages>(taken)),
         worker::template phase_of<Shape::stages>(taken));
    if (group == 0) {
      clear_rows(queries_at(), Shape::panels, Shape::panel_q, live, Shape::queries);
    } else {
      clear_rows(dout_at(), Shape::panels_v, Shape::panel_q, live, Shape::queries);
    }
    fence_async_proxy();
    named_sync(1, 256);
  }

  __device__ __forceinline__ void clear_keys(i32 live) {
    wait(bars.full_v(), worker::template phase_of<1>(filled));
    if (group == 0) {
      clear_rows(keys_at(), Shape::panels, Shape::panel_k, live, Shape::keys);
    } else {
      clear_rows(shared + Shape::at_v, Shape::panels_v, Shape::panel_k, live, Shape::keys);
    }
    fence_async_proxy();
    named_sync(1, 256);
  }

  /// All tiles.
  __device__ __forceinline__ void run() {
#pragma unroll 1
    while (true) {
      wait(bars.full_tile(worker::template stage_of<2>(tiles)), worker::template phase_of<2>(tiles));
      const i32 steps = uniform(this_tile().steps);
      if (steps < 0) break;
#pragma unroll
      for (int i = 0; i < Shape::dim / 2; ++i) dk[i] = 0.0F;
#pragma unroll
      for (int i = 0; i < Shape::dim_v / 2; ++i) dv[i] = 0.0F;
      if (steps > 0) take_queries(steps);
      write();
      __syncwarp();
      arrive_once(bars.empty_tile(worker::template stage_of<2>(tiles)));
      ++tiles;
    }
    if (lane_now() == 0) wait_bulk_groups();
  }

  __device__ __forceinline__ void take_queries(i32 steps) {
    query_walk<Shape::back> walk{this_tile()};
    i32 first_seen;  // the first query that sees a key of this warpgroup
    walk.make_uniform();
    {
      const key_tile& t = this_tile();
      filled = static_cast<u32>(uniform(t.filled));
      const i32 key = t.begin + 64 * group;
      first_whole = uniform(key + 64 > t.keys ? 1 << 30 : key + 63 - t.diagonal - p.right);
      last_whole = uniform(key - t.diagonal + p.left);
      first_seen = uniform(key - t.diagonal - p.right);
      last_query = uniform(p.has & (has_cu_q | has_used_q) ? t.queries : 1 << 30);
      wait(bars.full_k(worker::template stage_of<Shape::key_stages>(filled)),
           worker::template phase_of<Shape::key_stages>(filled));
      if ((p.has & (has_cu_k | has_used_k)) && t.begin + Shape::keys > t.keys) clear_keys(t.keys - t.begin);
    }
    if constexpr (Shape::held_keys) worker::hold(keys, keys_at());
    i32 stored = -1;
    i32 sums = walk.over_heads;
    const i32 end =
        walk.at * Shape::queries + Shape::part;  // in this place: see the notes, "What ptxas makes of it"
    if (!Shape::back && end <= first_seen && end <= last_query) {
      if constexpr (Shape::queries > Shape::part) {
        step_of_two<true, true>(walk.at * Shape::queries, stored);
      } else {
        skip_step();
      }
    } else {
      any_step<true>(walk.at * Shape::queries, stored);
    }
#pragma unroll 1
    for (i32 left = steps - 1; left > 0; --left) {
      walk.advance(p.rows / Shape::queries);
      any_step<false>(walk.at * Shape::queries, stored);
      stored = sums;
      sums = walk.over_heads;
    }
    if constexpr (!Shape::held_values) arrive_once(bars.empty_v());
    if constexpr (!MakesDq) {
      arrive_once(bars.empty_k(worker::template stage_of<Shape::key_stages>(filled)));
      return;
    } else {
      float dq[dq_count];
      wait(bars.full_slopes(worker::template stage_of<2>(taken - 1)),
           worker::template phase_of<2>(taken - 1));
      product_fence();
      start_dq(dq);
      if (stored >= 0) add_dq(stored);
      product_wait<0>();
      pin(dq);
      pin(dk);
      pin(dv);
      leave_slopes();
      arrive_once(bars.empty_k(worker::template stage_of<Shape::key_stages>(filled)));
      store_dq(dq);
      add_dq(sums);
    }
  }

  /// Adds this thread's part of a tile to sums that lie as those of dq do.
  template <int Count>
  __device__ __forceinline__ void add_sums(const float (&d)[Count], float* tile) {
    float* const to = tile + (4 * group + warp) * (32 * Count) + 4 * lane_now();
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
      add_four(to + 128 * i, d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]);
    }
  }

  __device__ __forceinline__ void write() {
    const key_tile& t = this_tile();
    const i32 row = 64 * group + 16 * warp + static_cast<i32>(lane_now() / 4);
    const i32 most = t.keys - t.begin - row;
    if constexpr (Shape::back) {
      const group_turn<Shape> turn{p, t, 4 * group + warp};
      turn.wait();
      turn.add(dv, p.dv_sum, 4 * group + warp);
      turn.add(dk, p.dk_sum, 4 * group + warp);
      turn.pass();
      if (!turn.is_last()) return;
    } else if (p.dk_sum) {
      add_sums(dv, p.dv_sum + t.dv);
      add_sums(dk, p.dk_sum + t.dk);
      return;
    }
    const float scale[2] = {p.scale, p.scale};
    const float one[2] = {1.0F, 1.0F};
    store_rows<type>(dv, one, static_cast<type*>(p.dv) + t.dv + row * p.dv_stride_token, p.dv_stride_token,
                     -8, most, static_cast<i32>(lane_now() % 4));
    store_rows<type>(dk, scale, static_cast<type*>(p.dk) + t.dk + row * p.dk_stride_token, p.dk_stride_token,
                     -8, most, static_cast<i32>(lane_now() % 4));
  }
};

template <class Shape>
__device__ __forceinline__ void attention_backward(const tensor_map& q_map, const tensor_map& k_map,
                                                   const tensor_map& v_map, const tensor_map& dout_map,
                                                   const backward_problem& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const backward_barriers<Shape> bars{shared_address(memory) + Shape::at_barriers};
  if (threadIdx.x == 0) {
    prefetch(q_map);
    prefetch(k_map);
    prefetch(v_map);
    prefetch(dout_map);
    init_barrier(bars.full_v(), 1);
    init_barrier(bars.empty_v(), 8);
    for (u32 s = 0; s < 2; ++s) {
      init_barrier(bars.full_k(s), 1);
      init_barrier(bars.empty_k(s), 8);
      init_barrier(bars.full_tile(s), 1);
      init_barrier(bars.empty_tile(s), Shape::ordered ? 9 : 8);
      init_barrier(bars.full_slopes(s), 8);
      init_barrier(bars.empty_slopes(s), Shape::single ? 4 : 8);
    }
    for (u32 s = 0; s < Shape::stages; ++s) {
      init_barrier(bars.full_q(s), 1);
      init_barrier(bars.empty_q(s), 8);
      init_barrier(bars.full_do(s), 1);
      init_barrier(bars.empty_do(s), 8);
    }
    if constexpr (Shape::ordered) {
      init_barrier(bars.full_sums(), Shape::single ? 4 : 8);
      init_barrier(bars.empty_sums(), 1);
    }
    fence_barrier_init();
  }
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x < 32 && elect_one()) {
      produce_all_tiles<Shape>(q_map, k_map, v_map, dout_map, p, bars, memory);
    }
    if constexpr (Shape::ordered) {
      if (threadIdx.x / 32 == 1 && elect_one()) add_in_turn<Shape>(p, bars, memory);
    }
  } else {
    take_registers<Shape::registers>();
    if constexpr (Shape::single) {
      if (warpgroup == 2) {
        key_worker<Shape, false> worker{p, bars, memory, 1};
        worker.run();
      } else {
        key_worker<Shape, true> worker{p, bars, memory, 0};
        worker.run();
      }
    } else {
      key_worker<Shape> worker{p, bars, memory, uniform(warpgroup - 1)};
      worker.run();
    }
  }
}

}  // namespace hopper

#define ATTENTION_BACKWARD(name, ...)                                                                     \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                    \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k,    \
           const __grid_constant__ hopper::tensor_map v, const __grid_constant__ hopper::tensor_map dout, \
           const __grid_constant__ hopper::backward_problem p) {                                          \
    hopper::attention_backward<hopper::backward_shape<__VA_ARGS__>>(q, k, v, dout, p);                    \
  }
