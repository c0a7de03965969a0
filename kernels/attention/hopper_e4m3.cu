// SPDX-License-Identifier: MIT
// Attention forward on Hopper with queries, keys and values in e4m3 and results in 16 bits: one thread feeds
// tiles, two or three warpgroups multiply in e4m3. Semantics: operators/attention_forward.hpp. What was
// tried: NOTES-hopper.md.
//
// Weights become e4m3 in registers without a shuffle, since the launch before gives the values the order in
// which a thread holds them: hopper_e4m3_values.cu. Blocks of keys begin at multiples of their size.
#include "hopper_e4m3_worker.hpp"

namespace hopper {

/// What feeds the others, one thread.
template <class Shape>
__device__ __forceinline__ void feed_e4m3(const tensor_map& q_map, const tensor_map& k_map,
                                          const e4m3_problem& p, barriers<Shape> bars, u32 shared,
                                          tile* places) {
  ring<Shape::stages> at_k, at_v;
  ring<2> at_q;
  ring<Shape::tile_slots> at_tile;
  tile_scheduler<Shape> tiles{p};
  tile t;
  tile_source from;
  bool turned = false;  // whether the values are known to be complete
  while (tiles.next(t, from)) {
    at_tile.advance();
    t.head = from.head;
    t.extra = from.head_kv;
    places[at_tile.stage] = t;
    const unsigned char* const values =
        p.values +
        static_cast<i64>(tiles.item / p.heads * p.heads_kv + from.head_kv) * p.keys_stride * Shape::dim;
    const auto load_k = [&](i32 n) {
      wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
      const u32 full = bars.full_k(at_k.stage);
      arrive_expecting(full, Shape::bytes_k);
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k +
                     static_cast<u32>(d) * Shape::panel_k,
                 k_map, full, Shape::panel_width * d, from.token_k + n * Shape::keys, from.head_kv,
                 from.entry_k);
      }
      at_k.advance();
    };
    const auto load_v = [&](i32 n) {
      wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
      if (!turned) {
        sy::ptx::wait_for_previous_launch();
        asm volatile("fence.proxy.async.global;" ::: "memory");
        turned = true;
      }
      const u32 full = bars.full_v(at_v.stage);
      arrive_expecting(full, Shape::bytes_v);
      copy_bytes(shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_v,
                 values + static_cast<i64>(n) * Shape::bytes_v, Shape::bytes_v, full);
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
               q_map, full_q, Shape::panel_width * d, from.token_q + t.begin, from.head, from.entry_q);
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

template <class Shape>
__device__ __forceinline__ void attention_e4m3(const tensor_map& q_map, const tensor_map& k_map,
                                               const e4m3_problem& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 shared = shared_address(memory);
  const barriers<Shape> bars{shared + Shape::at_barriers};
  auto* const places = reinterpret_cast<tile*>(memory + Shape::at_tiles);
  if (threadIdx.x == 0) {
    prefetch(q_map);
    prefetch(k_map);
    for (int s = 0; s < 2; ++s) {
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
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x < 32 && elect_one()) feed_e4m3<Shape>(q_map, k_map, p, bars, shared, places);
  } else {
    take_registers<Shape::registers>();
    e4m3_consumer<Shape> worker{p, bars, shared, places, warpgroup - 1};
    if (warpgroup == Shape::groups) worker.pass_turn();  // the first has the first turn
    worker.run();
  }
}

}  // namespace hopper

#define ATTENTION_E4M3(name, ...)                                                                      \
  extern "C" __global__ void __launch_bounds__((hopper::e4m3_shape<__VA_ARGS__>::threads), 1)          \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k, \
           const __grid_constant__ hopper::e4m3_problem p) {                                           \
    hopper::attention_e4m3<hopper::e4m3_shape<__VA_ARGS__>>(q, k, p);                                  \
  }
