// SPDX-License-Identifier: MIT
// Attention for a few query tokens against a long cache, for NVIDIA GPUs: a block, or a cluster of them, for
// each KV head. The blocks of a cluster combine their results through distributed shared memory. Semantics:
// operators/attention_decode.hpp. What was tried: NOTES-decode.md.
//
// All that counts is that keys and values arrive at the speed of the memory. So every warp is a pipeline of
// its own: it copies tiles of `Keys` keys and values into its ring of `Stages` buffers with cp.async, and no
// barrier is in the loop. The query heads of a KV head are rows of one tile.
#include "../gpu/ptx.hpp"
#include "decode_call.hpp"
#include "decode_join.hpp"
#include "decode_ring.hpp"
#include "decode_row_state.hpp"

namespace sy {

using ptx::allow_next_launch;
using ptx::wait_for_previous_launch;

__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
#endif
}
/// A float in the shared memory of block `rank` of the cluster, where this block has it at `address`.
__device__ __forceinline__ float load_of_cluster(u32 address, u32 rank) {
  float result = 0.0F;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\t"
      "ld.shared::cluster.f32 %0, [there];\n\t}"
      : "=f"(result)
      : "r"(address), "r"(rank)
      : "memory");
#endif
  return result;
}

/// Bytes of shared memory, as the space file computes them.
template <class Shape>
constexpr int shared_bytes = Shape::ring_bytes > (Shape::teams + 1) * static_cast<int>(sizeof(joined<Shape>))
                                 ? Shape::ring_bytes
                                 : (Shape::teams + 1) * static_cast<int>(sizeof(joined<Shape>));

/// The grid is [splits * heads_kv * batch, tiles of rows]. The splits of a KV head are a cluster.
template <class Shape>
__device__ __forceinline__ void decode_split(const decode_call& call) {
  constexpr int Warps = Shape::Warps;
  constexpr int Keys = Shape::Keys;
  constexpr int Stages = Shape::Stages;
  constexpr int Teams = Shape::teams;
  extern __shared__ __align__(128) char memory[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int team = warp / Shape::Team;
  const int member = warp % Shape::Team;
  const int split = static_cast<int>(blockIdx.x) % call.splits;
  const int item = static_cast<int>(blockIdx.x) / call.splits;
  const int head_kv = item % call.heads_kv;
  const int b = item / call.heads_kv;
  const decode_rows rows{call, static_cast<int>(blockIdx.y), Shape::rows};
  decode_rows own = rows;
  if constexpr (Shape::Team > 1) own = rows.part(member * Shape::warp_rows, Shape::warp_rows);

  allow_next_launch();
  wait_for_previous_launch();

  const decode_span<Keys> span{call, rows, b};
  // Whole tiles, distributed as evenly as possible.
  const int first_tile = static_cast<int>(static_cast<i64>(span.tiles) * split / call.splits);
  const int last_tile = static_cast<int>(static_cast<i64>(span.tiles) * (split + 1) / call.splits);
  const int mine = (last_tile - first_tile - team + Teams - 1) / Teams;
  const auto key_of = [&](int n) { return span.begin + (first_tile + team + n * Teams) * Keys; };

  const tile_ring<Shape> ring{call, memory, team, member, lane};
  const auto page_of = [&](int n) {
    return Shape::Paged && n < mine ? ring.page(b, key_of(n), span.end) : 0;
  };
  int pages[Stages + 1];
#pragma unroll
  for (int n = 0; n <= Stages; ++n) pages[n] = page_of(n);
#pragma unroll
  for (int n = 0; n < Stages; ++n) {
    if (n < mine) ring.copy_keys(n, b, head_kv, key_of(n), span.end, pages[n]);
    commit_copies();
    if (Shape::Team > 1 && n == Stages - 1) break;  // a team copies these when it has met
    if (n < mine) ring.copy_values(n, b, head_kv, key_of(n), span.end, pages[n]);
    commit_copies();
  }
  int next_page = pages[Stages];
  [[maybe_unused]] int copied_page = pages[Stages - 1];  // of the last keys

  row_state<Shape> state;
  state.start(call, own, b, head_kv, lane);
  int stage = 0;
  for (int n = 0; n < mine; ++n) {
    const int next = key_of(n + Stages);
    state.take(
        call, own, span, ring.k_tile(stage), ring.v_tile(stage), key_of(n), team, lane,
        [&] {
          if (n + Stages < mine) ring.copy_keys(stage, b, head_kv, next, span.end, next_page);
          commit_copies();
        },
        [&] {
          if constexpr (Shape::Team == 1) {
            if (n + Stages < mine) ring.copy_values(stage, b, head_kv, next, span.end, next_page);
          } else if (n + Stages - 1 < mine) {
            ring.copy_values(stage == 0 ? Stages - 1 : stage - 1, b, head_kv, key_of(n + Stages - 1),
                             span.end, copied_page);
          }
          commit_copies();
        });
    if constexpr (Shape::Team > 1) copied_page = next_page;
    next_page = page_of(n + Stages + 1);
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }
  wait_for_copies<0>();

  auto* const teams = reinterpret_cast<joined<Shape>*>(memory);
  joined<Shape>& block = teams[Teams];
  __syncthreads();  // before that, other teams' buffers are in use
  put_rows<Shape>(state, teams[team], member * Shape::warp_rows, lane);
  __syncthreads();
  const int live = rows.count * Shape::Dim;
  const int blocks = call.splits;
  for (int at = static_cast<int>(threadIdx.x); at < live; at += Warps * 32) {
    const int r = at / Shape::Dim;
    const int d = at % Shape::Dim;
    const row_value value = join_teams<Teams>(teams, r, d);
    if (blocks == 1) {
      write_out<typename Shape::Element>(call, value, b, head_kv * rows.group + rows.head(r), rows.query(r),
                                         d);
      continue;
    }
    block.values[r][d] = value.value;
    if (d == 0) {
      block.largest[r] = value.largest;
      block.total[r] = value.total;
    }
  }
  if (blocks == 1) return;

  // Each block of the cluster joins a part of the output.
  meet_cluster();
  constexpr int most_splits = 8;
  for (int at = split * (Warps * 32) + static_cast<int>(threadIdx.x); at < live; at += blocks * Warps * 32) {
    const int r = at / Shape::Dim;
    const int d = at % Shape::Dim;
    row_value part[most_splits];
#pragma unroll
    for (int i = 0; i < most_splits; ++i) {
      if (i >= blocks) break;
      part[i].largest = load_of_cluster(shared_address(&block.largest[r]), static_cast<u32>(i));
      part[i].total = load_of_cluster(shared_address(&block.total[r]), static_cast<u32>(i));
      part[i].value = load_of_cluster(shared_address(&block.values[r][d]), static_cast<u32>(i));
    }
    row_value all;
#pragma unroll
    for (int i = 0; i < most_splits; ++i) all.largest = fmaxf(all.largest, part[i].largest);
    const float shift = all.largest == -INFINITY ? 0.0F : all.largest;
#pragma unroll
    for (int i = 0; i < most_splits; ++i) {
      const float weight = exp2_approximate(part[i].largest - shift);
      all.value += weight * part[i].value;
      all.total += weight * part[i].total;
    }
    write_out<typename Shape::Element>(call, all, b, head_kv * rows.group + rows.head(r), rows.query(r), d);
  }
  meet_cluster();  // nobody's memory goes away while others read it
}

}  // namespace sy

#define SY_DECODE_SPLIT(name, element, narrow, dim, tiles, warps, keys, stages, paged)                     \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                 \
      name(const __grid_constant__ sy::decode_call call) {                                                 \
    sy::decode_split<sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged>>(call); \
  }

#define SY_DECODE_TEAM(name, element, narrow, dim, tiles, warps, keys, stages, paged, team)                  \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                   \
      name(const __grid_constant__ sy::decode_call call) {                                                   \
    using shape = sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged, team, true>; \
    sy::decode_split<shape>(call);                                                                           \
  }
