// SPDX-License-Identifier: MIT
// What the warpgroups of both kernels of attention backward on Hopper have in common.
#pragma once

#include "hopper_backward_tiles.hpp"

namespace hopper {

/// A warpgroup with 64 keys.
template <class Shape>
struct backward_worker {
  using type = typename Shape::type;
  using share = typename Shape::share;
  static constexpr int count = Shape::part / 2;  ///< scores of a thread, of a part of a tile's queries
  static constexpr int words = Shape::part / 4;

  const backward_problem& p;
  backward_barriers<Shape> bars;
  u32 shared;
  unsigned char* memory;
  int group, warp;
  u32 taken = 0;  ///< tiles of queries so far: places in all rings follow from it
  u32 tiles = 0;  ///< and of keys
  u32 filled;     ///< of those, how many some query saw
  float factor;   ///< brings scores to units of log2

  i32 first_whole, last_whole;  ///< queries that see all keys of this warpgroup
  i32 last_query;               ///< behind it are rows that may hold anything

  __device__ __forceinline__ backward_worker(const backward_problem& call, backward_barriers<Shape> b,
                                             unsigned char* at, int warpgroup)
      : p{call}, bars{b}, shared{shared_address(at)}, memory{at}, group{warpgroup} {
    warp = uniform(static_cast<i32>(threadIdx.x) % 128 / 32);
    factor = Shape::capped ? 1.0F : p.scale * log2_e;
  }

  /// Place and phase of the n-th in a ring.
  template <int Stages>
  [[nodiscard]] __device__ __forceinline__ static u32 stage_of(u32 n) {
    return n % Stages;
  }
  template <int Stages>
  [[nodiscard]] __device__ __forceinline__ static u32 phase_of(u32 n) {
    return n / Stages % 2;
  }

  [[nodiscard]] __device__ __forceinline__ u32 queries_at() const {
    return shared + Shape::at_q + stage_of<Shape::stages>(taken) * Shape::bytes_q;
  }
  [[nodiscard]] __device__ __forceinline__ u32 keys_at() const {
    return shared + stage_of<Shape::key_stages>(filled) * Shape::bytes_k;
  }
  [[nodiscard]] __device__ __forceinline__ u32 dout_at() const {
    return shared + Shape::at_do + stage_of<Shape::stages>(taken) * Shape::bytes_do;
  }

  __device__ __forceinline__ void arrive_once(u32 barrier) {
    if (lane_now() == 0) arrive(barrier);
  }

  /// Where this lane stores rows of a transposed tile of 16 queries by the warp's 16 keys.
  [[nodiscard]] __device__ __forceinline__ u32 slopes_address() const {
    const u32 at = lane_now();
    const u32 row = at / 16 * 8 + at % 8;
    const u32 chunk = (static_cast<u32>(2 * warp) + at / 8 % 2) ^ (row % 8);
    return shared + Shape::at_slopes + stage_of<2>(taken) * Shape::bytes_slopes +
           static_cast<u32>(group) * Shape::panel_q + row * 128 + chunk * 16;
  }

  /// Starts d = a b^T over `Dim`: a are this warpgroup's 64 rows of `keys`, b the rows of a stage.
  template <int Dim>
  __device__ __forceinline__ void start_transposed(float (&d)[count], u32 keys, u32 rows) {
    const u64 a = swizzled_operand(keys + static_cast<u32>(group) * 64 * 128, 0);
    const u64 b = swizzled_operand(rows, 0);
#pragma unroll
    for (int k = 0; k < Dim / 16; ++k) {
      const u64 inside = static_cast<u64>(k % 4) * (32 >> 4);
      shared_product<type, Shape::part>::run(d, a + (k / 4) * (Shape::panel_k >> 4) + inside,
                                             b + (k / 4) * (Shape::panel_q >> 4) + inside, k > 0);
    }
    product_commit();
  }

  /// Loads this warpgroup's 64 rows of keys or values as a first operand.
  template <int Count>
  __device__ __forceinline__ void hold(u32 (&to)[Count], u32 rows) {
    const u32 at = lane_now();
    const u32 row = static_cast<u32>(64 * group + 16 * warp) + at % 16;
#pragma unroll
    for (u32 k = 0; k < Count / 4; ++k) {
      u32 four[4];
      sy::ptx::load_matrices(
          four, rows + k / 4 * Shape::panel_k + row * 128 + ((2 * (k % 4) + at / 16) ^ row % 8) * 16);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) to[4 * k + i] = four[i];
    }
    pin(to);
  }

  /// Starts d = a b^T: a are this warpgroup's 64 rows of `rows`, or what it holds of them, b those of a
  /// stage.
  template <int Dim, bool Held, int Count>
  __device__ __forceinline__ void start_scores(float (&d)[count], const u32 (&held)[Count], u32 rows,
                                               u32 stage) {
    if constexpr (Held) {
      const u64 b = swizzled_operand(stage, 0);
#pragma unroll
      for (int k = 0; k < Dim / 16; ++k) {
        held_product<type, Shape::part>::run(
            d, held + 4 * k, b + (k / 4) * (Shape::panel_q >> 4) + static_cast<u64>(k % 4) * (32 >> 4),
            k > 0);
      }
      product_commit();
    } else {
      start_transposed<Dim>(d, rows, stage);
    }
  }

  /// Starts d += a b: a in registers, b the rows of a stage.
  template <int Dim>
  __device__ __forceinline__ void start_gradient(float (&d)[Dim / 2], const u32 (&a)[words], u32 rows) {
    const u64 b = swizzled_operand(rows, Shape::panel_q);
#pragma unroll
    for (int k = 0; k < Shape::part / 16; ++k) {
      register_product<type, Dim>::run(d, a + 4 * k, b + static_cast<u64>(k) * (16 * 128 >> 4));
    }
    product_commit();
  }

  /// Scores to weights, rounded into `rounded`; what is left in `s` makes slopes of dP - delta.
  __device__ __forceinline__ void weigh(float (&s)[count], u32 (&rounded)[words], i32 first_query,
                                        const float2 (&lse)[count / 4]) {
    float outside = factor;
    if constexpr (Shape::capped) {
      const float inside = __fdividef(p.scale, p.soft_cap);
      outside = p.soft_cap * log2_e;
      if constexpr (Shape::dim > 192) {  // where bend takes 5 % longer; why is not known
#pragma unroll
        for (int i = 0; i < count; ++i) s[i] = tangent_hyperbolic(s[i] * inside);
      } else {
        bend(s, inside);
      }
    }
    i32 least[2] = {-(1 << 30), -(1 << 30)};
    i32 most[2] = {1 << 30, 1 << 30};
    const bool whole = first_query >= first_whole && first_query + Shape::part - 1 <= last_whole;
    if (!whole) {
      const key_tile& t = this_tile();
      const i32 column = first_query + 2 * static_cast<i32>(lane_now() % 4);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const i32 key = t.begin + 64 * group + 16 * warp + 8 * r + static_cast<i32>(lane_now() / 4);
        least[r] = (key < t.keys ? key - t.diagonal - p.right : 1 << 30) - column;
        most[r] = key - t.diagonal + p.left - column;
      }
    }
    const auto sees = [&](int i) {  // whether the score is of a key that its query sees
      const int column = i / 4 * 8 + i % 2;
      return column >= least[i / 2 % 2] && column <= most[i / 2 % 2];
    };
    if constexpr (Shape::capped) {
#pragma unroll
      for (int i = 0; i < count; i += 2) {
        const float flat[2] = {fmaf(-s[i], s[i], 1.0F), fmaf(-s[i + 1], s[i + 1], 1.0F)};
        const float low = exp2_approximate(fmaf(s[i], outside, -lse[i / 4].x));
        const float high = exp2_approximate(fmaf(s[i + 1], outside, -lse[i / 4].y));
        s[i] = sees(i) ? low : 0.0F;
        s[i + 1] = sees(i + 1) ? high : 0.0F;
        rounded[i / 2] = pack<type>(s[i], s[i + 1]);
        s[i] *= flat[0];
        s[i + 1] *= flat[1];
      }
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        s[i] = exp2_approximate(fmaf(s[i], outside, -(i % 2 == 0 ? lse[i / 4].x : lse[i / 4].y)));
      }
      if (!whole) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
          if (!sees(i)) s[i] = 0.0F;
        }
      }
#pragma unroll
      for (int i = 0; i < words; ++i) rounded[i] = pack<type>(s[2 * i], s[2 * i + 1]);
    }
  }

  /// This thread's columns of a row of numbers, one a query; half of them at a time, for want of registers.
  template <int Half>
  __device__ __forceinline__ void load_row(float2 (&row)[count / 4], u32 at) {
    const auto* const from =
        reinterpret_cast<const float2*>(memory + at + stage_of<Shape::stages>(taken) * Shape::bytes_row) +
        lane_now() % 4;
#pragma unroll
    for (int j = Half * count / 8; j < (Half + 1) * count / 8; ++j) row[j] = from[4 * j];
  }

  /// Rows behind the end of a sequence may hold anything: the first `live` stay.
  __device__ __forceinline__ void clear_rows(u32 at, int panels, u32 panel, i32 live, i32 rows) {
#pragma unroll 1
    for (i32 i = max(live, 0) * 8 + static_cast<i32>(threadIdx.x) % 128; i < rows * 8; i += 128) {
#pragma unroll 1
      for (int n = 0; n < panels; ++n) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at + n * panel + i * 16), "r"(0)
                     : "memory");
      }
    }
  }

  [[nodiscard]] __device__ __forceinline__ const key_tile& this_tile() const {
    return reinterpret_cast<const key_tile*>(memory + Shape::at_tiles)[stage_of<2>(tiles)];
  }
};

}  // namespace hopper
