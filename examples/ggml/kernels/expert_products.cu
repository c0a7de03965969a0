// SPDX-License-Identifier: MIT
// Products with experts' matrices on GPUs. Semantics: expert_products.hpp.
//
// Few rows are computed one by one: as many weights are read as the experts have that are asked for. Of many,
// rows of one expert are put together first, up to `Rows` of them, which read the weights once. A warp
// computes `Outputs` outputs of such a group, and its lanes take eights of a row in turn, as in
// matmul_quantized.cu.
#include "../../../kernels/gpu/row.hpp"
#include "../../../kernels/gpu/split_index.hpp"
#include "../../../kernels/gpu/weight_blocks.hpp"

namespace sy {

struct expert_call {
  const u8* x;
  const u8* w;
  const u8* ids;
  u8* out;
  i32* order;   ///< [rows]: rows by expert
  i32* groups;  ///< [most groups, 3]: expert, first row in `order`, rows; no rows: none
  i64 tokens, slots, experts, in_features, out_features;
  i64 x_stride[2], ids_stride[2], out_stride[2], w_stride[2];
};

/// Row `row` of the call: a slot of a token.
struct routed_row {
  split_index at;
  __device__ __forceinline__ routed_row(const expert_call& of, i64 row) : at{row, of.slots} {}

  [[nodiscard]] __device__ __forceinline__ i64 offset(const i64 (&stride)[2]) const {
    return at.rest * stride[0] + at.quotient * stride[1];
  }
  [[nodiscard]] __device__ __forceinline__ i64 expert(const expert_call& of) const {
    return *reinterpret_cast<const i32*>(of.ids + offset(of.ids_stride));
  }
};

/// Rows by expert, and the groups of them, by one block. Counting sort: the place of a row among those of its
/// expert may differ from run to run, which changes no result.
template <int Rows, int Threads>
__device__ __forceinline__ void group_rows(const expert_call& of, i64 max_groups) {
  constexpr int max_experts = 1024;
  __shared__ i32 counts[max_experts];
  __shared__ i32 firsts[max_experts];        // of an expert's rows
  __shared__ i32 group_firsts[max_experts];  // of its groups
  begin_kernel();
  const auto experts = static_cast<int>(of.experts);
  const i64 rows = of.tokens * of.slots;
  for (int e = thread_index(); e < experts; e += Threads) counts[e] = 0;
  block_barrier();
  for (i64 row = thread_index(); row < rows; row += Threads) {
    const i64 expert = routed_row{of, row}.expert(of);
    if (expert >= 0 && expert < experts) atomicAdd(&counts[expert], 1);
  }
  block_barrier();
  // Each expert adds up what is before it: there are few of them.
  int own_groups = 0;
  for (int e = thread_index(); e < experts; e += Threads) {
    i32 first = 0;
    i32 group = 0;
    for (int before = 0; before < e; ++before) {
      first += counts[before];
      group += (counts[before] + Rows - 1) / Rows;
    }
    firsts[e] = first;
    group_firsts[e] = group;
  }
  block_barrier();
  for (int e = thread_index(); e < experts; e += Threads) {
    own_groups = (counts[e] + Rows - 1) / Rows;
    for (int g = 0; g < own_groups; ++g) {
      i32* group = of.groups + 3 * (group_firsts[e] + g);
      group[0] = e;
      group[1] = firsts[e] + g * Rows;
      group[2] = min(Rows, counts[e] - g * Rows);
    }
  }
  const int used = group_firsts[experts - 1] + (counts[experts - 1] + Rows - 1) / Rows;
  for (i64 g = used + thread_index(); g < max_groups; g += Threads) of.groups[3 * g + 2] = 0;
  block_barrier();
  for (i64 row = thread_index(); row < rows; row += Threads) {
    const routed_row routed{of, row};
    const i64 expert = routed.expert(of);
    if (expert >= 0 && expert < experts) {
      of.order[atomicAdd(&firsts[expert], 1)] = static_cast<i32>(row);
    } else {
      float* out = reinterpret_cast<float*>(of.out + routed.offset(of.out_stride));
      for (i64 i = 0; i < of.out_features; ++i) out[i] = as_float(0x7FC00000U);
    }
  }
}

/// Grid: blocks of outputs, then groups, or rows where Rows is 1.
template <weight_format Format, int XAlign, int Align, int Rows, int Outputs, int Threads>
__device__ __forceinline__ void multiply_experts(const expert_call& of) {
  begin_kernel();
  constexpr int lanes = 32;
  constexpr int depth = Rows == 1 ? 4 : 1;  // eights whose loads are under way together
  const int lane = thread_index() % lanes;
  const i64 first_output =
      (static_cast<i64>(block_index()) * (Threads / lanes) + thread_index() / lanes) * Outputs;
  if (first_output >= of.out_features) return;
  const i64 number = block_index_y();
  int count = 1;
  i64 expert = 0;
  const u8* x[Rows];
  float* out[Rows];
  if constexpr (Rows == 1) {
    const routed_row row{of, number};
    expert = row.expert(of);
    x[0] = of.x + row.offset(of.x_stride);
    out[0] = reinterpret_cast<float*>(of.out + row.offset(of.out_stride));
    if (expert < 0 || expert >= of.experts) {
      if (lane < Outputs && first_output + lane < of.out_features)
        out[0][first_output + lane] = as_float(0x7FC00000U);
      return;
    }
  } else {
    const i32* group = of.groups + 3 * number;
    count = group[2];
    if (count == 0) return;
    expert = group[0];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const routed_row row{of, of.order[group[1] + min(r, count - 1)]};
      x[r] = of.x + row.offset(of.x_stride);
      out[r] = reinterpret_cast<float*>(of.out + row.offset(of.out_stride));
    }
  }
  const u8* w[Outputs];
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
    const i64 output = first_output + o < of.out_features ? first_output + o : of.out_features - 1;
    w[o] = of.w + expert * of.w_stride[1] + output * of.w_stride[0];
  }
  float sums[Rows][Outputs] = {};
  const u32 eights = static_cast<u32>((of.in_features + 7) / 8);
  for (u32 first = lane; first < eights; first += lanes * depth) {
    eight_weights<Format, Align> packed_w[depth][Outputs];
    eight_weights<weight_format::f32, XAlign> packed_x[depth][Rows];
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      const u32 index = first + d * lanes;
      if (index >= eights) continue;
      const i64 left = of.in_features - static_cast<i64>(index) * 8;
#pragma unroll
      for (int o = 0; o < Outputs; ++o) packed_w[d][o].load(w[o], index, left);
#pragma unroll
      for (int r = 0; r < Rows; ++r) packed_x[d][r].load(x[r], index, left);
    }
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      if (first + d * lanes >= eights) continue;
      float weights[Outputs][8];
#pragma unroll
      for (int o = 0; o < Outputs; ++o) packed_w[d][o].get(weights[o]);
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        float values[8];
        packed_x[d][r].get(values);
#pragma unroll
        for (int o = 0; o < Outputs; ++o) {
#pragma unroll
          for (int e = 0; e < 8; ++e) sums[r][o] += values[e] * weights[o][e];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int o = 0; o < Outputs; ++o) {
      const float sum = lane_sum<32>(sums[r][o]);
      if (lane == 0 && r < count && first_output + o < of.out_features) out[r][first_output + o] = sum;
    }
  }
}

}  // namespace sy

#define SY_GGML_GROUP(name, rows, threads)                                      \
  extern "C" SY_KERNEL(threads, 1) name(sy::expert_call call, sy::i64 groups) { \
    sy::group_rows<rows, threads>(call, groups);                                \
  }

#define SY_GGML_EXPERTS(name, format, x_align, align, rows, outputs, threads)                      \
  extern "C" SY_KERNEL(threads, 1) name(sy::expert_call call) {                                    \
    sy::multiply_experts<sy::weight_format::format, x_align, align, rows, outputs, threads>(call); \
  }
