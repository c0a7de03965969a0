// SPDX-License-Identifier: MIT
// Parts of the products of matrices for Hopper: the order of tiles, copies, products and stores of a block.
// hopper_gemm.cu says how they work together.
#pragma once

#include "../attention/hopper_parts.hpp"
#include "hopper_gemm_ptx.hpp"

namespace hopper::gemm {

inline constexpr int depth = 64;  ///< inputs of a stage: 128 bytes

struct arguments {
  const float* bias;
  const float* x_scales;  ///< [rows]; null: 1
  const float* w_scales;  ///< [out_features]; null: 1
  const char* x_made;     ///< operands of hopper_operands.cu; null: x is a tensor
  const char* w_made;
  char*
      partial;  ///< sums of the splits, [splits, panels of 32 outputs, rows], swizzled; null: out is written
  i32 rows, out_features;
  i32 steps;               ///< of `depth` inputs, in all products of addends
  i32 inputs_steps;        ///< of one product
  i32 x_second, w_second;  ///< which product takes the second addend of x, and of w; 0: none
  i32 splits;
  i32 band;       ///< rows of tiles that go along w together, so that L2 serves both operands
  i32 out_dtype;  ///< as switchyard::dtype: 0 f16, 1 bf16, 2 f32
};

/// A tile, and its share of the steps.
struct unit {
  i32 row, column, split, begin, end;
};

/// The work of a cluster. Tiles follow each other in bands, and in a band rows of tiles vary fastest.
template <int TileM, int BlockN>
struct schedule {
  i32 tiles_m, tiles_n, count;

  __device__ __forceinline__ explicit schedule(const arguments& a)
      : tiles_m{(a.rows + TileM - 1) / TileM},
        tiles_n{(a.out_features + BlockN - 1) / BlockN},
        count{tiles_m * tiles_n * a.splits} {}

  __device__ __forceinline__ unit at(const arguments& a, i32 index) const {
    const i32 tile = index / a.splits;
    const i32 split = index - tile * a.splits;
    const i32 first = tile / (a.band * tiles_n) * a.band;
    const i32 within = tile - first * tiles_n;
    const i32 height = min(a.band, tiles_m - first);
    const i32 n = within / height;
    const i32 m = first + within - n * height;
    return {m * TileM, n * BlockN, split, a.steps * split / a.splits, a.steps * (split + 1) / a.splits};
  }
};

/// Of a block; both warpgroups have their own rows, or with 64 rows their own outputs.
template <class T, int BlockM, int BlockN, int Stages, int Cluster>
struct multiplier {
  static constexpr bool is_side_by_side = BlockM == 64;
  static constexpr int parts = is_side_by_side ? 1 : BlockM / 128;  ///< of 64 rows, for a warpgroup
  static constexpr int width = is_side_by_side ? BlockN / 2 : BlockN;
  static constexpr int x_bytes = BlockM * 128;
  static constexpr int stage_bytes = x_bytes + BlockN * 128;
  static constexpr int panel_bytes = 64 * 128;
  static constexpr int panels_at = Stages * stage_bytes;
  static constexpr int barriers_at = panels_at + 4 * panel_bytes;
  static_assert(width % 32 == 0 && width >= 64 && BlockN % (8 * Cluster) == 0 && BlockM % 64 == 0);

  const arguments& a;
  u32 memory;
  u32 rank;
  schedule<BlockM * Cluster, BlockN> tiles;

  __device__ __forceinline__ u32 full(int stage) const { return memory + barriers_at + 16 * stage; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage) + 8; }

  /// Fillers: arrivals that make a stage full, besides its bytes.
  __device__ __forceinline__ void init(u32 fillers = 1) const {
    for (int stage = 0; stage < Stages; ++stage) {
      init_barrier(full(stage), fillers);
      init_barrier(empty(stage), 8 * Cluster);  // warps
    }
    fence_barrier_init();
  }

  /// Rows of a box that lie in a matrix.
  __device__ __forceinline__ static i32 rows_in(i32 rows, i32 first, i32 box) {
    return max(0, min(box, rows - first));
  }

  __device__ __forceinline__ void copy(const tensor_map& x, const tensor_map& w) const {
    constexpr i32 share = BlockN / Cluster;
    ring<Stages> at;
    for (i32 index = blockIdx.x / Cluster; index < tiles.count; index += gridDim.x / Cluster) {
      const unit now = tiles.at(a, index);
      const i32 row = now.row + static_cast<i32>(rank) * BlockM;
      const i32 column = now.column + static_cast<i32>(rank) * share;
      // A box of a tensor counts whole; beyond made operands there is nothing.
      const u32 made_x = 128 * rows_in(a.rows, row, BlockM);
      const u32 made_w = 128 * rows_in(a.out_features, column, share);
      const u32 expected =
          (a.x_made != nullptr ? made_x : BlockM * 128) +
          (a.w_made != nullptr ? 128 * rows_in(a.out_features, now.column, BlockN) : BlockN * 128);
      for (i32 step = now.begin; step < now.end; ++step, at.advance()) {
        wait(empty(at.stage), at.phase ^ 1);
        const u32 barrier = full(at.stage);
        const u32 to_x = memory + at.stage * stage_bytes;
        const u32 to_w = to_x + x_bytes + rank * share * 128;
        arrive_expecting(barrier, expected);
        const i32 product = step / a.inputs_steps;
        const i32 within = step - product * a.inputs_steps;
        const bool is_x_second = product != 0 && product == a.x_second;
        const bool is_w_second = product != 0 && product == a.w_second;
        if (a.x_made == nullptr) {
          copy_box(to_x, x, barrier, within * depth, row);
        } else if (made_x != 0) {
          const i64 panel = within + (is_x_second ? a.inputs_steps : 0);
          copy_bytes(to_x, a.x_made + (panel * a.rows + row) * 128, made_x, barrier);
        }
        if (a.w_made == nullptr) {
          if constexpr (Cluster == 1) {
            copy_box(to_w, w, barrier, within * depth, column);
          } else {
            copy_box_to((1U << Cluster) - 1, to_w, w, barrier, within * depth, column);
          }
        } else if (made_w != 0) {
          const i64 panel = within + (is_w_second ? a.inputs_steps : 0);
          const char* const from = a.w_made + (panel * a.out_features + column) * 128;
          if constexpr (Cluster == 1) {
            copy_bytes(to_w, from, made_w, barrier);
          } else {
            copy_bytes_to((1U << Cluster) - 1, to_w, from, made_w, barrier);
          }
        }
      }
    }
  }

  /// A warp has done with a stage.
  __device__ __forceinline__ void release(int stage, u32 lane) const {
    if constexpr (Cluster == 1) {
      if (lane == 0) arrive(empty(stage));
    } else {
      if (lane < Cluster) arrive_at(empty(stage), lane);
    }
  }

  __device__ __forceinline__ void multiply(const tensor_map& out, int group) const {
    float d[parts][width / 2];
    ring<Stages> at;
    u32 panels_stored = 0;
    const u32 thread = threadIdx.x % 128;
    const u32 lane = thread % 32;
    for (i32 index = blockIdx.x / Cluster; index < tiles.count; index += gridDim.x / Cluster) {
      const unit now = tiles.at(a, index);
      int earlier = 0;
      for (i32 step = now.begin; step < now.end; ++step, at.advance()) {
        wait(full(at.stage), at.phase);
        const u32 x = memory + at.stage * stage_bytes + (is_side_by_side ? 0 : group * parts * 64 * 128);
        const u32 w = memory + at.stage * stage_bytes + x_bytes + (is_side_by_side ? group * width * 128 : 0);
        product_fence();
#pragma unroll
        for (int k = 0; k < depth / 16; ++k) {
#pragma unroll
          for (int part = 0; part < parts; ++part)
            shared_product<T, width>::run(d[part], swizzled_operand(x + part * 64 * 128 + 32 * k, 0),
                                          swizzled_operand(w + 32 * k, 0), step != now.begin || k != 0);
        }
        product_commit();
        product_wait<1>();
        if (step != now.begin) release(earlier, lane);
        earlier = at.stage;
      }
      product_wait<0>();
#pragma unroll
      for (int part = 0; part < parts; ++part) pin(d[part]);
      release(earlier, lane);
      const i32 row = now.row + static_cast<i32>(rank) * BlockM + (is_side_by_side ? 0 : group * parts * 64);
      const i32 column = now.column + (is_side_by_side ? group * width : 0);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const unit place{row + part * 64, column, now.split, 0, 0};
        finish(d[part], place, thread);
        if (a.out_dtype == 2) {
          store<float>(out, d[part], place, group, thread, panels_stored);
        } else if (a.out_dtype == 0) {
          store<__half>(out, d[part], place, group, thread, panels_stored);
        } else {
          store<__nv_bfloat16>(out, d[part], place, group, thread, panels_stored);
        }
      }
    }
    if (thread == 0) wait_bulk_groups();
  }

  /// Two neighbouring values of a factor for each output.
  __device__ __forceinline__ float2 of_outputs(const float* values, i32 column) const {
    return {column < a.out_features ? __ldg(values + column) : 0.0F,
            column + 1 < a.out_features ? __ldg(values + column + 1) : 0.0F};
  }

  /// A panel of 64 rows for hopper_gemm_sum.cu.
  __device__ __forceinline__ void store_sums(u32 buffer, const unit& place, i32 column) const {
    const u32 bytes = 128 * rows_in(a.rows, place.row, 64);
    if (bytes == 0 || column >= a.out_features) return;
    const i64 panel = i64{place.split} * ((a.out_features + 31) / 32) + column / 32;
    store_bytes(a.partial + (panel * a.rows + place.row) * 128, buffer, bytes);
  }

  /// Sums become results: times the scales of the thread's two rows and of each output, plus the bias.
  __device__ __forceinline__ void finish(float (&d)[width / 2], const unit& place, u32 thread) const {
    const i32 row = place.row + static_cast<i32>(thread / 32 * 16 + thread % 32 / 4);
    const i32 first = place.column + 2 * static_cast<i32>(thread % 4);
    if (a.w_scales != nullptr) {
#pragma unroll
      for (int j = 0; j < width / 8; ++j) {
        const float2 by = of_outputs(a.w_scales, first + 8 * j);
        d[4 * j] *= by.x;
        d[4 * j + 1] *= by.y;
        d[4 * j + 2] *= by.x;
        d[4 * j + 3] *= by.y;
      }
    }
    if (a.x_scales != nullptr) {
      const float scale[2]{row < a.rows ? __ldg(a.x_scales + row) : 0.0F,
                           row + 8 < a.rows ? __ldg(a.x_scales + row + 8) : 0.0F};
#pragma unroll
      for (int i = 0; i < width / 2; ++i) d[i] *= scale[i / 2 % 2];
    }
    if (a.bias != nullptr) {
#pragma unroll
      for (int j = 0; j < width / 8; ++j) {
        const float2 more = of_outputs(a.bias, first + 8 * j);
        d[4 * j] += more.x;
        d[4 * j + 1] += more.y;
        d[4 * j + 2] += more.x;
        d[4 * j + 3] += more.y;
      }
    }
  }

  /// 64 rows of a warpgroup.
  template <class Out>
  __device__ __forceinline__ void store(const tensor_map& out, const float (&d)[width / 2], const unit& place,
                                        int group, u32 thread, u32& panels_stored) const {
    constexpr int eights = sizeof(Out) == 4 ? 4 : 8;  ///< of columns in a panel
    const u32 lane = thread % 32;
    const u32 r = lane / 4;
    const u32 quad = lane % 4;
    const u32 warp_row = thread / 32 * 16;
    constexpr int panels = (width / 8 + eights - 1) / eights;
#pragma unroll
    for (int panel = 0; panel < panels; ++panel, ++panels_stored) {
      // The last panel may begin in the one before, and stores the same again.
      constexpr int last = width / 8 - eights;
      const int first = panel * eights < last ? panel * eights : last;
      const i32 column = place.column + 8 * first;
      const float* const v = d + 4 * first;
      const u32 buffer = memory + panels_at + (2 * group + panels_stored % 2) * panel_bytes;
      if (thread == 0) wait_bulk_reads_but_one();
      named_sync(1 + group, 128);
      if constexpr (sizeof(Out) == 4) {
        const u32 row = warp_row + r;
#pragma unroll
        for (int j = 0; j < eights; ++j) {
          const u32 to = buffer + row * 128 + (((2 * j + quad / 2) ^ r) << 4) + quad % 2 * 8;
          store_pair(to, v[4 * j], v[4 * j + 1]);
          store_pair(to + 8 * 128, v[4 * j + 2], v[4 * j + 3]);
        }
      } else {
        const u32 row = warp_row + lane % 16;
#pragma unroll
        for (int j = 0; j < eights; j += 2) {
          const u32 words[4]{pack<Out>(v[4 * j], v[4 * j + 1]), pack<Out>(v[4 * j + 2], v[4 * j + 3]),
                             pack<Out>(v[4 * j + 4], v[4 * j + 5]), pack<Out>(v[4 * j + 6], v[4 * j + 7])};
          store_matrices(buffer + row * 128 + (((j + lane / 16) ^ (row % 8)) << 4), words);
        }
      }
      fence_async_proxy();
      named_sync(1 + group, 128);
      if (thread == 0) {
        if (a.partial == nullptr) {
          store_box(out, buffer, column * static_cast<i32>(sizeof(Out) / 2), place.row);
        } else {
          store_sums(buffer, place, column);
        }
        commit_bulk_group();
      }
    }
  }
};

}  // namespace hopper::gemm
