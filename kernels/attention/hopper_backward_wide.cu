// SPDX-License-Identifier: MIT
// Attention backward on Hopper for wide heads: dk, dv and the sums of dq in five products a pair of tiles.
// Semantics: operators/attention_backward.hpp. What was tried: NOTES-hopper-backward.md.
//
// dk and dv of 128 keys do not fit the registers beyond 128 columns. Here a block owns 64 keys, and each of
// two warpgroups has one gradient of all of them: the first multiplies scores and dv, the second dP and dk.
// The first hands its weights over through shared memory, in f32; the second stores the slopes, from which
// each makes some of dq's columns, a step later, and adds them to the sums in memory from registers. No
// operand but the keys and queries is read twice, which would cost more than the handing over. Where every
// run is to give the same bits, a thread of its own adds in a fixed order, or says when the warps may add.
#include "hopper_backward_order.hpp"
#include "hopper_backward_worker.hpp"
#include "hopper_packed_maps.hpp"

namespace hopper {

/// Sizes of a kernel. `Capped`: scores are. `Staged`: dq goes to its sums through shared memory. `Ordered`:
/// in a fixed order of the blocks of keys, as in hopper_backward_order.hpp.
template <class Type, int Dim, int DimV, int Queries, int Stages, bool Capped, bool Staged,
          bool Ordered = false>
struct wide_shape {
  static_assert(Dim % 64 == 0 && DimV % 64 == 0 && Queries == 64);
  using type = Type;
  using share = dq_shares<Dim, Queries>;
  static constexpr int dim = Dim;
  static constexpr int dim_v = DimV;
  static constexpr int queries = Queries;
  static constexpr int part = Queries;
  static constexpr bool rotated = false;
  static constexpr int keys = 64;
  static constexpr int stages = Stages;
  static constexpr bool capped = Capped;
  static constexpr bool ordered = Ordered;
  static constexpr bool back = Ordered;
  static constexpr bool staged = Staged;
  static constexpr int panels = Dim / 64;
  static constexpr int panels_v = DimV / 64;
  static constexpr int key_stages = 1;
  /// Whether keys, and values, are in registers as well, as first operands of scores and dP.
  static constexpr bool held_keys = Dim <= 192;
  static constexpr bool held_values = DimV <= 128;
  static constexpr int first_panels = panels / 2;  ///< of dq, that the first warpgroup makes
  static constexpr u32 panel_k = keys * 128;
  static constexpr u32 panel_q = Queries * 128;
  static constexpr u32 bytes_k = panels * panel_k;
  static constexpr u32 bytes_v = panels_v * panel_k;
  static constexpr u32 bytes_q = panels * panel_q;
  static constexpr u32 bytes_do = panels_v * panel_q;
  static constexpr u32 bytes_slopes = panel_q;
  static constexpr u32 bytes_row = Queries * 4;
  static constexpr u32 at_v = bytes_k;
  static constexpr u32 at_q = at_v + bytes_v;
  static constexpr u32 at_do = at_q + Stages * bytes_q;
  static constexpr u32 at_slopes = at_do + Stages * bytes_do;
  static constexpr u32 at_weights = at_slopes + 2 * bytes_slopes;
  static constexpr u32 at_dq = at_weights + keys * Queries * 4;
  static constexpr u32 at_lse = at_dq + (Staged ? Queries * Dim * 4 : 0);
  static constexpr u32 at_delta = at_lse + Stages * bytes_row;
  static constexpr u32 at_tiles = at_delta + Stages * bytes_row;
  static constexpr u32 at_barriers = at_tiles + 2 * 64;
  static constexpr u32 shared_bytes = at_barriers + 16 * (8 + 2 * Stages + (Ordered ? 1 : 0));
};

/// What both warpgroups do: `Second` has dP, slopes and dk, the other one scores, weights and dv.
template <class Shape, bool Second>
struct wide_worker : backward_worker<Shape> {
  using worker = backward_worker<Shape>;
  using typename worker::share, typename worker::type;
  using worker::arrive_once, worker::bars, worker::clear_rows, worker::count, worker::dout_at, worker::filled,
      worker::first_whole, worker::keys_at, worker::last_query, worker::last_whole, worker::memory, worker::p,
      worker::queries_at, worker::shared, worker::slopes_address, worker::taken, worker::this_tile,
      worker::tiles, worker::warp, worker::weigh, worker::words;
  static constexpr int columns = Second ? Shape::dim : Shape::dim_v;
  static constexpr int first_panel = Second ? Shape::first_panels : 0;
  static constexpr int parts = Second ? Shape::panels - Shape::first_panels : Shape::first_panels;

  float gradient[columns / 2];  ///< dk or dv
  static constexpr bool held = Second ? Shape::held_values : Shape::held_keys;
  u32 rows[held ? (Second ? Shape::dim_v : Shape::dim) / 4 : 1];  ///< values or keys

  __device__ __forceinline__ wide_worker(const backward_problem& call, backward_barriers<Shape> b,
                                         unsigned char* at)
      : worker{call, b, at, 0} {}

  /// Starts this warpgroup's columns of dq = slopes keys, of the n-th tile.
  __device__ __forceinline__ void start_dq(float (&dq)[32 * parts], u32 n) {
    const u64 a = swizzled_operand(
        shared + Shape::at_slopes + worker::template stage_of<2>(n) * Shape::bytes_slopes, 0);
    const u64 b = swizzled_operand(keys_at() + first_panel * Shape::panel_k, Shape::panel_k);
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      mixed_product<type, 64 * parts>::run(dq, a + static_cast<u64>(k) * (32 >> 4),
                                           b + static_cast<u64>(k) * (16 * 128 >> 4), k > 0);
    }
    product_commit();
  }

  /// Where eight columns, of those of this warpgroup, have the warp's sums in a tile's, as dq_shares says.
  [[nodiscard]] __device__ __forceinline__ int place_of(int eight) const {
    constexpr int eights = share::columns / 8;
    const int at = 8 * first_panel + eight;
    return (4 * (at / eights) + warp) * (32 * share::count) + at % eights * 128;
  }

  [[nodiscard]] __device__ __forceinline__ float* sums_of(i32 tile) const {
    return p.dq_sum + static_cast<i64>(tile) * (Shape::queries * Shape::dim);
  }

  [[nodiscard]] __device__ __forceinline__ u32 dq_slot() const {
    return Shape::at_dq + static_cast<u32>(4 * first_panel + parts * warp) * 4096;
  }

  /// Adds them to the sums of that tile, or lays them down for send_dq.
  __device__ __forceinline__ void add_dq(const float (&dq)[32 * parts], i32 tile) {
    if constexpr (Shape::ordered) {
      // The thread that takes turns has added what was laid down before, or says that the turn has come.
      wait(Shape::staged ? bars.empty_sums() : bars.full_sums(),
           worker::template phase_of<1>(taken - 1) ^ (Shape::staged ? 1 : 0));
    }
    if constexpr (Shape::staged && Shape::ordered) {
      auto* const to = reinterpret_cast<float4*>(memory + Shape::at_dq) + lane_now();
#pragma unroll
      for (int i = 0; i < 8 * parts; ++i) {
        to[place_of(i) / 4] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
      }
    } else if constexpr (Shape::staged) {
      if (lane_now() == 0) wait_bulk_reads();  // of the step before
      __syncwarp();
      auto* const to = reinterpret_cast<float4*>(memory + dq_slot()) + lane_now();
#pragma unroll
      for (int i = 0; i < 8 * parts; ++i) {
        to[32 * i] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
      }
    } else {
      float* const to = sums_of(tile) + 4 * lane_now();
#pragma unroll
      for (int i = 0; i < 8 * parts; ++i) {
        add_four(to + place_of(i), dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
      }
      if constexpr (Shape::ordered) {
        __syncwarp();
        arrive_once(bars.empty_sums());
      }
    }
  }

  /// Sends what was laid down. To be called with products under way: the fence waits for the stores.
  __device__ __forceinline__ void send_dq(i32 tile) {
    if constexpr (Shape::staged) {
      fence_async_proxy();
      __syncwarp();
      if constexpr (Shape::ordered) {
        arrive_once(bars.full_sums());
      } else if (lane_now() == 0) {
        // Columns of one share at a time.
        constexpr int before = 8 * first_panel % (share::columns / 8);
        constexpr int first =
            before + 8 * parts > share::columns / 8 ? share::columns / 8 - before : 8 * parts;
        add_floats(sums_of(tile) + place_of(0), shared + dq_slot(), first * 512);
        if constexpr (first < 8 * parts) {
          add_floats(sums_of(tile) + place_of(first), shared + dq_slot() + first * 512,
                     (8 * parts - first) * 512);
        }
        commit_bulk_group();
      }
    }
  }

  /// This warpgroup needs the slopes of the n-th tile no more.
  __device__ __forceinline__ void leave_slopes(u32 n) {
    arrive_once(bars.empty_slopes(worker::template stage_of<2>(n)));
  }

  __device__ __forceinline__ void wait_for_slopes(u32 n) {
    wait(bars.full_slopes(worker::template stage_of<2>(n)), worker::template phase_of<2>(n));
  }

  /// Where this thread's weights are handed over: the same of both warpgroups have the same ones.
  [[nodiscard]] __device__ __forceinline__ float4* weights_place() const {
    return reinterpret_cast<float4*>(memory + Shape::at_weights) + 32 * warp + lane_now();
  }

  [[nodiscard]] __device__ __forceinline__ u32 stage() const {
    return worker::template stage_of<Shape::stages>(taken);
  }
  [[nodiscard]] __device__ __forceinline__ u32 phase() const {
    return worker::template phase_of<Shape::stages>(taken);
  }

  /// Scores, weights and dv of one tile of queries; beside it dq of the tile before, whose sums are the tile
  /// `sums`; what was laid down before that, for the tile `stored`, is sent; -1: there is none.
  template <bool First>
  __device__ __forceinline__ void weights_step(i32 first_query, i32 sums, i32 stored) {
    float s[count];
    wait(bars.full_q(stage()), phase());
    if (first_query + Shape::queries > last_query) clear_queries(last_query - first_query);
    product_fence();
    worker::template start_scores<Shape::dim, held>(s, rows, keys_at(), queries_at());
    if (!First && stored >= 0) send_dq(stored);
    u32 weights[words];
    {
      float2 lse[count / 4];
      worker::template load_row<0>(lse, Shape::at_lse);
      worker::template load_row<1>(lse, Shape::at_lse);
      product_wait<0>();
      pin(s);
      weigh(s, weights, first_query, lse);
    }
    __syncwarp();  // all lanes have read their rows' numbers
    arrive_once(bars.empty_q(stage()));
    wait(bars.full_do(stage()), phase());
    pin(weights);
    product_fence();
    worker::template start_gradient<Shape::dim_v>(gradient, weights, dout_at());
    wait(bars.empty_weights(), worker::template phase_of<1>(taken) ^ 1);
    float4* const place = weights_place();
#pragma unroll
    for (int i = 0; i < count / 4; ++i) {
      place[128 * i] = make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
    }
    __syncwarp();
    arrive_once(bars.full_weights());
    float dq[32 * parts];
    if constexpr (!First) {
      wait_for_slopes(taken - 1);
      product_fence();
      start_dq(dq, taken - 1);
      product_wait<1>();
    } else {
      product_wait<0>();
    }
    pin(weights);
    arrive_once(bars.empty_do(stage()));
    if constexpr (!First) {
      product_wait<0>();
      pin(dq);
      leave_slopes(taken - 1);
      add_dq(dq, sums);
    }
    ++taken;
  }

  /// dP, slopes and dk of one tile of queries, likewise.
  template <bool First>
  __device__ __forceinline__ void slopes_step(i32 first_query, i32 sums, i32 stored) {
    float dp[count];
    if constexpr (First) {
      wait(bars.full_v(), worker::template phase_of<1>(filled));
      if constexpr (held) worker::hold(rows, shared + Shape::at_v);
    }
    wait(bars.full_do(stage()), phase());
    if (first_query + Shape::queries > last_query) clear_queries(last_query - first_query);
    product_fence();
    worker::template start_scores<Shape::dim_v, held>(dp, rows, shared + Shape::at_v, dout_at());
    if constexpr (First && held) arrive_once(bars.empty_v());  // the product has its operand
    if (!First && stored >= 0) send_dq(stored);
    u32 slopes[words];
    {
      float2 delta[count / 4];
      worker::template load_row<0>(delta, Shape::at_delta);
      worker::template load_row<1>(delta, Shape::at_delta);
      wait(bars.full_weights(), worker::template phase_of<1>(taken));
      product_wait<0>();
      pin(dp);
      const float4* const place = weights_place();
#pragma unroll
      for (int i = 0; i < count / 4; ++i) {
        const float4 s = place[128 * i];
        slopes[2 * i] = pack<type>(s.x * (dp[4 * i] - delta[i].x), s.y * (dp[4 * i + 1] - delta[i].y));
        slopes[2 * i + 1] =
            pack<type>(s.z * (dp[4 * i + 2] - delta[i].x), s.w * (dp[4 * i + 3] - delta[i].y));
      }
    }
    pin(slopes);
    __syncwarp();
    arrive_once(bars.empty_weights());
    arrive_once(bars.empty_do(stage()));
    wait(bars.empty_slopes(worker::template stage_of<2>(taken)), worker::template phase_of<2>(taken) ^ 1);
    const u32 to = slopes_address();
#pragma unroll
    for (int k = 0; k < Shape::queries / 16; ++k) store_transposed(to + k * 16 * 128, slopes + 4 * k);
    wait(bars.full_q(stage()), phase());
    product_fence();
    worker::template start_gradient<Shape::dim>(gradient, slopes, queries_at());
    float dq[32 * parts];
    if constexpr (!First) {
      wait_for_slopes(taken - 1);
      product_fence();
      start_dq(dq, taken - 1);
    }
    // Behind the products: the fence waits for the stores.
    fence_async_proxy();
    __syncwarp();
    arrive_once(bars.full_slopes(worker::template stage_of<2>(taken)));
    if constexpr (First) {
      product_wait<0>();
    } else {
      product_wait<1>();
    }
    pin(slopes);
    arrive_once(bars.empty_q(stage()));
    if constexpr (!First) {
      product_wait<0>();
      pin(dq);
      leave_slopes(taken - 1);
      add_dq(dq, sums);
    }
    ++taken;
  }

  template <bool First>
  __device__ __forceinline__ void step(i32 first_query, i32 sums, i32 stored) {
    if constexpr (Second) {
      slopes_step<First>(first_query, sums, stored);
    } else {
      weights_step<First>(first_query, sums, stored);
    }
  }

  /// Rows behind the end of a sequence may hold anything: the first `live` stay. Each clears what it reads
  /// first; the other one reads it later.
  __device__ __forceinline__ void clear_queries(i32 live) {
    if constexpr (Second) {
      clear_rows(dout_at(), Shape::panels_v, Shape::panel_q, live, Shape::queries);
    } else {
      clear_rows(queries_at(), Shape::panels, Shape::panel_q, live, Shape::queries);
    }
    fence_async_proxy();
    named_sync(1, 256);
  }

  __device__ __forceinline__ void clear_keys(i32 live) {
    if constexpr (Second) {
      wait(bars.full_v(), worker::template phase_of<1>(filled));
      clear_rows(shared + Shape::at_v, Shape::panels_v, Shape::panel_k, live, Shape::keys);
    } else {
      clear_rows(keys_at(), Shape::panels, Shape::panel_k, live, Shape::keys);
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
      for (int i = 0; i < columns / 2; ++i) gradient[i] = 0.0F;
      if (steps > 0) take_queries(steps);
      write();
      __syncwarp();
      arrive_once(bars.empty_tile(worker::template stage_of<2>(tiles)));
      ++tiles;
    }
    if constexpr (Shape::staged && !Shape::ordered) {
      if (lane_now() == 0) wait_bulk_groups();
    }
  }

  __device__ __forceinline__ void take_queries(i32 steps) {
    query_walk<Shape::back> walk{this_tile()};
    walk.make_uniform();
    {
      const key_tile& t = this_tile();
      filled = static_cast<u32>(uniform(t.filled));
      first_whole = uniform(t.begin + 64 > t.keys ? 1 << 30 : t.begin + 63 - t.diagonal - p.right);
      last_whole = uniform(t.begin - t.diagonal + p.left);
      last_query = uniform(p.has & (has_cu_q | has_used_q) ? t.queries : 1 << 30);
      wait(bars.full_k(0), worker::template phase_of<1>(filled));
      if ((p.has & (has_cu_k | has_used_k)) && t.begin + Shape::keys > t.keys) clear_keys(t.keys - t.begin);
    }
    if constexpr (held && !Second) worker::hold(rows, keys_at());
    i32 stored = -1;
    i32 sums = walk.over_heads;
    step<true>(walk.at * Shape::queries, -1, stored);
#pragma unroll 1
    for (i32 left = steps - 1; left > 0; --left) {
      walk.advance(p.rows / Shape::queries);
      step<false>(walk.at * Shape::queries, sums, stored);
      stored = sums;
      sums = walk.over_heads;
    }
    if constexpr (Second && !held) arrive_once(bars.empty_v());
    float dq[32 * parts];
    wait_for_slopes(taken - 1);
    product_fence();
    start_dq(dq, taken - 1);
    if (stored >= 0) send_dq(stored);
    product_wait<0>();
    pin(dq);
    leave_slopes(taken - 1);
    arrive_once(bars.empty_k(0));
    add_dq(dq, sums);
    send_dq(sums);
    pin(gradient);
  }

  __device__ __forceinline__ void write() {
    const key_tile& t = this_tile();
    const i64 first = Second ? t.dk : t.dv;
    if constexpr (Shape::back) {
      const group_turn<Shape> turn{p, t, Second ? 4 + warp : warp};
      turn.wait();
      turn.add(gradient, Second ? p.dk_sum : p.dv_sum, warp);
      turn.pass();
      if (!turn.is_last()) return;
    } else if (p.dk_sum) {
      float* const to = (Second ? p.dk_sum : p.dv_sum) + first + warp * (16 * columns) + 4 * lane_now();
#pragma unroll
      for (int i = 0; i < columns / 8; ++i) {
        add_four(to + 128 * i, gradient[4 * i], gradient[4 * i + 1], gradient[4 * i + 2],
                 gradient[4 * i + 3]);
      }
      return;
    }
    const i32 row = 16 * warp + static_cast<i32>(lane_now() / 4);
    const i64 stride = Second ? p.dk_stride_token : p.dv_stride_token;
    const float factor = Second ? p.scale : 1.0F;
    const float factors[2] = {factor, factor};
    store_rows<type>(gradient, factors, static_cast<type*>(Second ? p.dk : p.dv) + first + row * stride,
                     stride, -8, t.keys - t.begin - row, static_cast<i32>(lane_now() % 4));
  }
};

template <class Shape>
__device__ __forceinline__ void attention_backward_wide(const tensor_map& q_map, const tensor_map& k_map,
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
    init_barrier(bars.empty_v(), 4);
    init_barrier(bars.full_k(0), 1);
    init_barrier(bars.empty_k(0), 8);
    init_barrier(bars.full_weights(), 4);
    init_barrier(bars.empty_weights(), 4);
    for (u32 s = 0; s < 2; ++s) {
      init_barrier(bars.full_tile(s), 1);
      init_barrier(bars.empty_tile(s), Shape::ordered ? 9 : 8);
      init_barrier(bars.full_slopes(s), 4);
      init_barrier(bars.empty_slopes(s), 8);
    }
    for (u32 s = 0; s < Shape::stages; ++s) {
      init_barrier(bars.full_q(s), 1);
      init_barrier(bars.empty_q(s), 8);
      init_barrier(bars.full_do(s), 1);
      init_barrier(bars.empty_do(s), 8);
    }
    if constexpr (Shape::ordered) {
      init_barrier(bars.full_sums(), Shape::staged ? 8 : 1);
      init_barrier(bars.empty_sums(), Shape::staged ? 1 : 8);
    }
    fence_barrier_init();
  }
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    give_registers<24>();
    if (threadIdx.x < 32 && elect_one()) {
      produce_all_tiles<Shape>(q_map, k_map, v_map, dout_map, p, bars, memory);
    }
    if constexpr (Shape::ordered) {
      if (threadIdx.x / 32 == 1 && elect_one()) {
        if constexpr (Shape::staged) {
          add_in_turn<Shape>(p, bars, memory);
        } else {
          call_in_turn<Shape>(p, bars, memory);
        }
      }
    }
  } else {
    take_registers<240>();
    if (warpgroup == 1) {
      wide_worker<Shape, false> worker{p, bars, memory};
      worker.run();
    } else {
      wide_worker<Shape, true> worker{p, bars, memory};
      worker.run();
    }
  }
}

}  // namespace hopper

#define ATTENTION_BACKWARD_WIDE(name, ...)                                                                \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                    \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k,    \
           const __grid_constant__ hopper::tensor_map v, const __grid_constant__ hopper::tensor_map dout, \
           const __grid_constant__ hopper::backward_problem p) {                                          \
    hopper::attention_backward_wide<hopper::wide_shape<__VA_ARGS__>>(q, k, v, dout, p);                   \
  }
