// SPDX-License-Identifier: MIT
// The second launch of hopper_latent joins the parts of sequences that several blocks had. Its grid is that
// of the first, and each block has a share, by columns and rows, of the sequences that its namesake had parts
// of: no sequence is looked for, and whoever had more parts has no more to do.
#include "hopper_latent_deal.hpp"

namespace hopper {

namespace latent {

inline constexpr i32 join_warps = 16;

/// What a thread has of a unit of 16 rows and 16 columns: two rows, 8 apart, and of each two of 8 columns and
/// the same two of the next 8.
struct joined {
  float largest[2] = {-infinity, -infinity};  ///< of a row
  float total[2] = {0.0F, 0.0F};
  float4 value[2] = {};  ///< of 8 columns; .x and .y are of the first row

  /// Adds parts: their states, a row each, and values.
  template <int Count>
  __device__ __forceinline__ void add(const float2 (&state)[Count][2], const float4 (&part)[Count][2]) {
    float shift[2];
    float rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = largest[r];
#pragma unroll
      for (int k = 0; k < Count; ++k) most = fmaxf(most, state[k][r].x);
      shift[r] = most == -infinity ? 0.0F : most;
      rescale[r] = exp2_approximate(largest[r] - shift[r]);
      largest[r] = most;
      total[r] *= rescale[r];
    }
#pragma unroll
    for (float4& v : value)
      v = make_float4(v.x * rescale[0], v.y * rescale[0], v.z * rescale[1], v.w * rescale[1]);
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      const float weight[2] = {exp2_approximate(state[k][0].x - shift[0]),
                               exp2_approximate(state[k][1].x - shift[1])};
#pragma unroll
      for (int r = 0; r < 2; ++r) total[r] = fmaf(weight[r], state[k][r].y, total[r]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        value[i].x = fmaf(weight[0], part[k][i].x, value[i].x);
        value[i].y = fmaf(weight[0], part[k][i].y, value[i].y);
        value[i].z = fmaf(weight[1], part[k][i].z, value[i].z);
        value[i].w = fmaf(weight[1], part[k][i].w, value[i].w);
      }
    }
  }
};

/// A unit by its number: those of the same 16 rows follow each other.
struct place {
  i32 warp, group, j;  ///< whose results it is in the first launch, and its first 8 columns
  __device__ __forceinline__ explicit place(i32 unit)
      : warp{unit / 32}, group{unit / 16 % 2}, j{unit % 16 * 2} {}
};

/// One sequence of the block's.
template <class T>
struct joint {
  const call& c;
  i32 b, from, to;
  bool later;  ///< of its first block the sequence is the last, of others the first
  i32 live;    ///< rows
  i32 lane = static_cast<i32>(threadIdx.x) % 32;
  i32 warp = static_cast<i32>(threadIdx.x) / 32;

  __device__ __forceinline__ joint(const call& of, int4 plan)
      : c{of},
        b{plan.x},
        from{plan.y},
        to{plan.z},
        later{plan.w != 0},
        live{min(of.seqlen_q * of.heads - static_cast<i32>(blockIdx.y) * rows, rows)} {}

  /// Adds `Parts` parts of each of `Units` units, from `part` on, each `step` behind the one before; all are
  /// asked for before the first is used.
  template <int Units, int Parts>
  __device__ __forceinline__ void gather(joined (&of)[Units], i32 unit, i32 unit_step, i32 units_end,
                                         i32 part, i32 step) const {
    float2 state[Units][Parts][2];
    float4 value[Units][Parts][2];
#pragma unroll
    for (int u = 0; u < Units; ++u) {
      const place at{min(unit + u * unit_step, units_end - 1)};
#pragma unroll
      for (int p = 0; p < Parts; ++p) {
        const i32 block = part + p * step;
        const bool there = block <= to;
        const i64 slot =
            (static_cast<i64>(blockIdx.y) * c.blocks + min(block, to)) * 2 + (block == from && later ? 1 : 0);
        const float2* const states =
            reinterpret_cast<const float2*>(c.partial_state) + slot * rows + at.warp * 16 + lane / 4;
        const float4* const values = reinterpret_cast<const float4*>(c.partial + slot * rows * columns) +
                                     fragment_of(at.group, at.warp, at.j, lane);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          state[u][p][i] = there ? __ldcg(states + 8 * i) : make_float2(-infinity, 0.0F);
          value[u][p][i] = there ? __ldcg(values + 32 * i) : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < Units; ++u) of[u].add(state[u], value[u]);
  }

  /// All threads of a warp call this together.
  __device__ __forceinline__ void write(const joined& of, i32 unit) const {
    const place at{unit};
    const float v_scale = c.v_scale != nullptr ? __ldg(c.v_scale) : 1.0F;
    float by[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) by[r] = of.total[r] == 0.0F ? 0.0F : v_scale / of.total[r];
    u32 word[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      word[2 * i] = pack<T>(of.value[i].x * by[0], of.value[i].y * by[0]);
      word[2 * i + 1] = pack<T>(of.value[i].z * by[1], of.value[i].w * by[1]);
    }
    const i32 quad = lane % 4;
    transpose_words(word, quad);
    const bool second = quad % 2 != 0;  // which row's columns this thread has now
    const i32 r = at.warp * 16 + lane / 4 + (second ? 8 : 0);
    if (r >= live) return;
    const i32 row = static_cast<i32>(blockIdx.y) * rows + r;
    const i32 query = row / c.heads;
    const i32 head = row - query * c.heads;
    T* const out = static_cast<T*>(c.out) + b * c.out_stride_batch + head * c.out_stride_head +
                   query * c.out_stride_token + at.group * (columns / 2) + (at.j + quad / 2) * 8;
    *reinterpret_cast<uint4*>(out) = make_uint4(word[0], word[1], word[2], word[3]);
    if (c.lse != nullptr && at.group == 0 && at.j == 0 && quad < 2) {
      const float largest = second ? of.largest[1] : of.largest[0];
      const float total = second ? of.total[1] : of.total[0];
      c.lse[b * c.lse_stride_batch + head * c.lse_stride_head + query] =
          total == 0.0F ? -infinity : (largest + log2f(total)) * ln_2;
    }
  }

  /// Each warp takes `Units` units a time, with all parts.
  template <int Units, int Parts>
  __device__ __forceinline__ void join_alone(i32 begin, i32 end) const {
#pragma unroll 1
    for (i32 unit = begin + warp; unit < end; unit += Units * join_warps) {
      joined all[Units];
#pragma unroll 1
      for (i32 part = from; part <= to; part += Parts)
        gather<Units, Parts>(all, unit, join_warps, end, part, 1);
#pragma unroll
      for (int u = 0; u < Units; ++u)
        if (unit + u * join_warps < end) write(all[u], unit + u * join_warps);
    }
  }

  /// `team` warps share a unit's parts. All threads of the block call this together.
  __device__ __forceinline__ void join_together(i32 begin, i32 end, i32 team) const {
    __shared__ float4 values[2][join_warps][32];
    __shared__ float2 states[2][join_warps][32];
    const i32 member = warp % team;
#pragma unroll 1
    for (i32 unit = begin + warp / team; begin < end; begin += join_warps / team, unit += join_warps / team) {
      joined all[1];
      if (unit < end) {
#pragma unroll 1
        for (i32 part = from + member; part <= to; part += 4 * team)
          gather<1, 4>(all, unit, 0, end, part, team);
      }
      joined& mine = all[0];
      __syncthreads();  // what was there before has been read
      if (member != 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          values[i][warp][lane] = mine.value[i];
          states[i][warp][lane] = make_float2(mine.largest[i], mine.total[i]);
        }
      }
      __syncthreads();
      if (member != 0 || unit >= end) continue;
#pragma unroll 1
      for (i32 w = warp + 1; w < warp + team; ++w) {
        const float2 state[1][2] = {{states[0][w][lane], states[1][w][lane]}};
        const float4 value[1][2] = {{values[0][w][lane], values[1][w][lane]}};
        mine.add(state, value);
      }
      write(mine, unit);
    }
  }

  /// All threads of the block call this together.
  __device__ __forceinline__ void run() const {
    const i32 units = (live + 15) / 16 * 32;
    const i32 parts = to - from + 1;
    const i32 share = static_cast<i32>(blockIdx.x) - from;
    const i32 begin = units * share / parts;
    const i32 end = units * (share + 1) / parts;
    if (parts <= 4) {  // many units
      join_alone<1, 2>(begin, end);
      return;
    }
    i32 team = join_warps;  // warps for a unit, a power of two
    while (team > 1 && (join_warps / team < end - begin || team >= 2 * parts)) team /= 2;
    join_together(begin, end, team);
  }
};

/// The grid is [blocks, row tiles].
template <class T>
__device__ __forceinline__ void join(const call& c) {
  sy::ptx::allow_next_launch();
  sy::ptx::wait_for_previous_launch();
  const int4 plans[2] = {__ldcg(c.plan + 2 * blockIdx.x), __ldcg(c.plan + 2 * blockIdx.x + 1)};
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    const int4 plan = i == 0 ? plans[0] : plans[1];
    if (plan.x >= 0) joint<T>{c, plan}.run();
  }
}

}  // namespace latent

}  // namespace hopper

#define LATENT_JOIN(name, T)                                 \
  extern "C" __global__ void __launch_bounds__(512, 1)       \
      name(const __grid_constant__ hopper::latent::call c) { \
    hopper::latent::join<T>(c);                              \
  }
