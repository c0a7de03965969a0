// SPDX-License-Identifier: MIT
// A linear layer for many rows, for Hopper: out = x w^T + bias. Semantics: operators/matmul_quantized.hpp.
//
// x and w are both f16 or both bf16, with the summed dimension innermost. Where they are not,
// hopper_operands.cu has made them before, and the results are multiplied with the scales of its rows.
//
// A block computes tiles of `BlockM` rows by `BlockN` outputs, one after the other. One warp copies boxes of
// 64 inputs into a ring of `Stages` buffers (TMA, 128-byte swizzle), two warpgroups multiply (wgmma) and sum
// in f32. Two blocks of a cluster have neighbouring rows; each copies half of the weights to both. Results go
// through shared memory, in panels of 128 bytes a row, which the copy engine clips to the tensor.
//
// Few tiles do not fill a device: their inputs are shared among `splits` blocks, whose sums hopper_gemm_sum
// adds.
#include "../attention/hopper_parts.hpp"
#include "hopper_gemm_ptx.hpp"

namespace hopper::gemm {

inline constexpr int depth = 64;  ///< inputs of a stage: 128 bytes

struct arguments {
  const float* bias;
  const float* x_scales;  ///< [rows]; null: 1
  const float* w_scales;  ///< [out_features]; null: 1
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
    return {m * TileM, n * BlockN, split, static_cast<i32>(i64{a.steps} * split / a.splits),
            static_cast<i32>(i64{a.steps} * (split + 1) / a.splits)};
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
  static_assert(width % 64 == 0 && BlockN % (8 * Cluster) == 0 && BlockM % 64 == 0);

  const arguments& a;
  u32 memory;
  u32 rank;
  schedule<BlockM * Cluster, BlockN> tiles;

  __device__ __forceinline__ u32 full(int stage) const { return memory + barriers_at + 16 * stage; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage) + 8; }

  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Stages; ++stage) {
      init_barrier(full(stage), 1);
      init_barrier(empty(stage), 8 * Cluster);  // warps
    }
    fence_barrier_init();
  }

  __device__ __forceinline__ void copy(const tensor_map& x, const tensor_map& w) const {
    ring<Stages> at;
    for (i32 index = blockIdx.x / Cluster; index < tiles.count; index += gridDim.x / Cluster) {
      const unit now = tiles.at(a, index);
      const i32 row = now.row + static_cast<i32>(rank) * BlockM;
      for (i32 step = now.begin; step < now.end; ++step, at.advance()) {
        wait(empty(at.stage), at.phase ^ 1);
        const u32 barrier = full(at.stage);
        const u32 to = memory + at.stage * stage_bytes;
        arrive_expecting(barrier, stage_bytes);
        const i32 product = step / a.inputs_steps;
        const i32 within = step - product * a.inputs_steps;
        const bool is_x_second = product != 0 && product == a.x_second;
        const bool is_w_second = product != 0 && product == a.w_second;
        const i32 input = within * depth;
        const i32 second = a.inputs_steps * depth;
        copy_box(to, x, barrier, input + (is_x_second ? second : 0), row);
        const i32 w_input = input + (is_w_second ? second : 0);
        if constexpr (Cluster == 1) {
          copy_box(to + x_bytes, w, barrier, w_input, now.column);
        } else {
          constexpr i32 share = BlockN / Cluster;
          copy_box_to((1U << Cluster) - 1, to + x_bytes + rank * share * 128, w, barrier, w_input,
                      now.column + static_cast<i32>(rank) * share);
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
        if (a.out_dtype == 2) {
          store<float>(out, d[part], place, group, thread);
        } else if (a.out_dtype == 0) {
          store<__half>(out, d[part], place, group, thread);
        } else {
          store<__nv_bfloat16>(out, d[part], place, group, thread);
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

  /// 64 rows of a warpgroup.
  template <class Out>
  __device__ __forceinline__ void store(const tensor_map& out, float (&d)[width / 2], const unit& place,
                                        int group, u32 thread) const {
    constexpr int eights = sizeof(Out) == 4 ? 4 : 8;  ///< of columns in a panel
    const u32 lane = thread % 32;
    const u32 r = lane / 4;
    const u32 quad = lane % 4;
    const u32 warp_row = thread / 32 * 16;
    float scale[2]{1.0F, 1.0F};
    if (a.x_scales != nullptr) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i32 row = place.row + static_cast<i32>(warp_row + r) + 8 * half;
        if (row < a.rows) scale[half] = __ldg(a.x_scales + row);
      }
    }
#pragma unroll
    for (int panel = 0; panel < width / 8 / eights; ++panel) {
      const i32 column = place.column + panel * eights * 8;
      float* const v = d + panel * eights * 4;
      if (a.x_scales != nullptr || a.w_scales != nullptr) {
#pragma unroll
        for (int j = 0; j < eights; ++j) {
          const float2 by = a.w_scales != nullptr
                                ? of_outputs(a.w_scales, column + 8 * j + 2 * static_cast<i32>(quad))
                                : float2{1.0F, 1.0F};
          v[4 * j] *= scale[0] * by.x;
          v[4 * j + 1] *= scale[0] * by.y;
          v[4 * j + 2] *= scale[1] * by.x;
          v[4 * j + 3] *= scale[1] * by.y;
        }
      }
      if (a.bias != nullptr) {
#pragma unroll
        for (int j = 0; j < eights; ++j) {
          const float2 more = of_outputs(a.bias, column + 8 * j + 2 * static_cast<i32>(quad));
          v[4 * j] += more.x;
          v[4 * j + 1] += more.y;
          v[4 * j + 2] += more.x;
          v[4 * j + 3] += more.y;
        }
      }
      const u32 buffer = memory + panels_at + (2 * group + panel % 2) * panel_bytes;
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
        store_box(out, buffer, column * static_cast<i32>(sizeof(Out) / 2), place.row, place.split);
        commit_bulk_group();
      }
    }
  }
};

template <class T, int BlockM, int BlockN, int Stages, int Cluster>
__device__ __forceinline__ void run(const tensor_map& x, const tensor_map& w, const tensor_map& out,
                                    const arguments& a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 rank = Cluster == 1 ? 0 : sy::ptx::cluster_rank();
  const multiplier<T, BlockM, BlockN, Stages, Cluster> block{a, shared_address(shared), rank,
                                                             schedule<BlockM * Cluster, BlockN>{a}};
  if (threadIdx.x == 0) {
    block.init();
    prefetch(x);
    prefetch(w);
    prefetch(out);
  }
  if constexpr (Cluster == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group == 0) {
    give_registers<40>();
    if (threadIdx.x / 32 == 0 && elect_one()) block.copy(x, w);
  } else {
    take_registers<232>();
    block.multiply(out, group - 1);
  }
  // The other block may still copy to this one, or arrive at its barriers.
  if constexpr (Cluster != 1) {
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM(NAME, T, BLOCK_M, BLOCK_N, STAGES, CLUSTER)                                            \
  extern "C" __global__ void __launch_bounds__(384, 1) NAME(                                               \
      const __grid_constant__ hopper::tensor_map x, const __grid_constant__ hopper::tensor_map w,          \
      const __grid_constant__ hopper::tensor_map out, const __grid_constant__ hopper::gemm::arguments a) { \
    hopper::gemm::run<T, BLOCK_M, BLOCK_N, STAGES, CLUSTER>(x, w, out, a);                                 \
  }
