// SPDX-License-Identifier: MIT
// Attention forward on Hopper: one warp, or several with pages, feed tiles of keys and values through the
// copy engine, two or three warpgroups multiply. Semantics: operators/attention_forward.hpp. What was tried:
// NOTES-hopper.md.
//
// Within a warpgroup the scores of the next block of keys and the weighted values of the current one are in
// the tensor cores while it takes exponentials, and warpgroups take turns to issue products, as in
// FlashAttention-3 (Shah et al., arXiv:2407.08608). The running maximum is kept while the true one exceeds it
// by less than 2^8, which spares most corrections of the output, as in FlashAttention-4.
//
// A block of keys, or a tile of queries, that would reach over the end of its sequence is moved back to end
// there, and what it repeats is masked: copies then never read behind a sequence, and what they read before
// the tensor is zero.
#include "hopper_forward_narrow.hpp"
#include "hopper_forward_warp.hpp"
#include "hopper_forward_worker.hpp"

namespace hopper {

/// What feeds the others, one thread.
template <class Shape>
__device__ __forceinline__ void produce(const tensor_map& q_map, const tensor_map& k_map,
                                        const tensor_map& v_map, const typename Shape::problem_type& p,
                                        barriers<Shape> bars, u32 shared, tile* places) {
  ring<Shape::stages> at_k, at_v;
  ring<Shape::query_stages> at_q;
  ring<Shape::tile_slots> at_tile;
  tile_scheduler<Shape> tiles{p};
  tile t;
  tile_source from;
  while (tiles.next(t, from)) {
    at_tile.advance();
    places[at_tile.stage] = t;
    const auto load = [&]<int Panels>(panels_of<Panels>, const tensor_map& map, u32 to, u32 barrier, i32 n) {
      arrive_expecting(barrier, Panels * Shape::panel_k);
#pragma unroll
      for (int d = 0; d < Panels; ++d) {
        copy_box(to + static_cast<u32>(d) * Shape::panel_k, map, barrier, 64 * d,
                 from.token_k + start_of<Shape>(n, t.keys), from.head_kv, from.entry_k);
      }
    };
    const auto load_k = [&](i32 n) {
      wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
      load(panels_of<Shape::panels>{}, k_map,
           shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k, bars.full_k(at_k.stage), n);
      at_k.advance();
    };
    const auto load_v = [&](i32 n) {
      wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
      load(panels_of<Shape::panels_v>{}, v_map,
           shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v, bars.full_v(at_v.stage), n);
      at_v.advance();
    };
    i32 n = t.last_block - 1;
    load_k(n);
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    const u32 full_q = bars.full_q(at_q.stage);
    arrive_expecting(full_q, Shape::bytes_q);
#pragma unroll
    for (int d = 0; d < Shape::panels; ++d) {
      copy_box(shared + static_cast<u32>(at_q.stage) * Shape::bytes_q + static_cast<u32>(d) * Shape::panel_q,
               q_map, full_q, 64 * d, from.token_q + t.begin, from.head, from.entry_q);
    }
    at_q.advance();
    for (; n > t.first_block; --n) {
      load_k(n - 1);
      load_v(n);
    }
    load_v(n);
  }
  at_tile.advance();
  places[at_tile.stage].first_block = -1;
  wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
  arrive(bars.full_q(at_q.stage));
}

/// Waits for the launch before, whose stores this thread's copies then read. It has also cleared the counter.
__device__ __forceinline__ void wait_for_widened() {
  sy::ptx::wait_for_previous_launch();
  fence_async_global();
}

template <class Shape>
__device__ __forceinline__ void attention(const tensor_map& q_map, const tensor_map& k_map,
                                          const tensor_map& v_map, const tensor_map& bias_map,
                                          const typename Shape::problem_type& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 shared = shared_address(memory);
  const barriers<Shape> bars{shared + Shape::at_barriers};
  auto* const places = reinterpret_cast<tile*>(memory + Shape::at_tiles);
  if (threadIdx.x == 0) {
    prefetch(q_map);
    prefetch(k_map);
    prefetch(v_map);
    for (int s = 0; s < Shape::query_stages; ++s) {
      init_barrier(bars.full_q(s), 1);
      init_barrier(bars.empty_q(s), 4 * Shape::groups);
    }
    for (int s = 0; s < Shape::stages; ++s) {
      init_barrier(bars.full_k(s), Shape::narrow ? widening_warps : 1);
      init_barrier(bars.full_v(s), Shape::narrow ? widening_warps : 1);
      init_barrier(bars.empty_k(s), 4 * Shape::groups);
      init_barrier(bars.empty_v(s), 4 * Shape::groups);
    }
    for (int s = 0; s < Shape::bias_stages; ++s) {
      init_barrier(bars.full_bias(s), 1);
      init_barrier(bars.empty_bias(s), 4 * Shape::groups);
    }
    for (int s = 0; s < Shape::narrow_stages; ++s) {
      init_barrier(bars.full_narrow(s), 1);
      init_barrier(bars.empty_narrow(s), widening_warps);
    }
    fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    if constexpr (Shape::extended) {
      if constexpr (Shape::feeders > 1) {
        feed<Shape>(q_map, k_map, v_map, bias_map, p, bars, shared, places);
      } else {
        if (threadIdx.x < 32) {
          if constexpr (Shape::widened && !Shape::widens) wait_for_widened();
          warp_producer<Shape>{q_map, k_map, v_map, bias_map, p, bars, shared, places}.run();
        }
        if constexpr (Shape::narrow) {
          if (threadIdx.x >= 32) widen_blocks<Shape>(bars, shared);
        }
        if constexpr (Shape::widens) {
          if (threadIdx.x >= 32) widening_warp<Shape>{p, shared}.run();
        }
      }
    } else {
      if (threadIdx.x < 32 && elect_one()) produce<Shape>(q_map, k_map, v_map, p, bars, shared, places);
    }
  } else {
    take_registers<Shape::registers>();
    consumer<Shape> worker{p, bars, shared, places, warpgroup - 1};
    if constexpr (Shape::ping_pong) {
      if (warpgroup == Shape::groups) worker.pass_turn();  // the first has the first turn
    }
    worker.run();
  }
}

}  // namespace hopper

#define ATTENTION_FORWARD(name, ...)                                                                   \
  extern "C" __global__ void __launch_bounds__((hopper::shape<__VA_ARGS__>::threads), 1)               \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k, \
           const __grid_constant__ hopper::tensor_map v,                                               \
           const __grid_constant__ typename hopper::shape<__VA_ARGS__>::problem_type p) {              \
    hopper::attention<hopper::shape<__VA_ARGS__>>(q, k, v, q, p);                                      \
  }

/// The same with a map of the bias, {key, query, head, batch}.
#define ATTENTION_FORWARD_BIASED(name, ...)                                                               \
  extern "C" __global__ void __launch_bounds__((hopper::shape<__VA_ARGS__>::threads), 1)                  \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k,    \
           const __grid_constant__ hopper::tensor_map v, const __grid_constant__ hopper::tensor_map bias, \
           const __grid_constant__ typename hopper::shape<__VA_ARGS__>::problem_type p) {                 \
    hopper::attention<hopper::shape<__VA_ARGS__>>(q, k, v, bias, p);                                      \
  }

/// The same over keys and values that are widened in the workspace.
#define ATTENTION_FORWARD_WIDENED(name, ...)                                              \
  extern "C" __global__ void __launch_bounds__((hopper::shape<__VA_ARGS__>::threads), 1)  \
      name(const __grid_constant__ hopper::tensor_map q,                                  \
           const __grid_constant__ typename hopper::shape<__VA_ARGS__>::problem_type p) { \
    hopper::attention<hopper::shape<__VA_ARGS__>>(q, q, q, q, p);                         \
  }
