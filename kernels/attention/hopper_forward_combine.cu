// SPDX-License-Identifier: MIT
// Attention forward on Hopper, keys in parts: joins the parts' results. A warp a row.
#include "hopper_parts.hpp"

namespace hopper {

/// What a launch joins; rows are (entry * heads + head) * seqlen_q + query.
struct parts {
  const float* partial;      ///< [splits, rows, dim_v]
  const float* partial_lse;  ///< [splits, rows], to base 2; -infinity of what saw no key
  void* out;
  float* lse;          ///< null: not wanted
  const float* sinks;  ///< [heads]; null: none
  const i32* cu_seqlens_q;
  const i32* seqused_q;
  i64 out_stride_batch;
  i64 out_stride_head;
  i64 out_stride_token;
  i64 lse_stride_batch;
  i64 lse_stride_head;
  i32 batch;
  i32 heads;
  i32 seqlen_q;
  i32 dim_v;   ///< a multiple of 8
  i32 splits;  ///< 32 at most
};

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xffffffff, value, d);
  return value;
}

__device__ __forceinline__ float most_of_warp(float value) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, d));
  return value;
}

template <class T>
__device__ __forceinline__ void combine(const parts& p) {
  const i32 lane = static_cast<i32>(threadIdx.x) % 32;
  const i32 row = static_cast<i32>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const i64 rows = static_cast<i64>(p.batch * p.heads) * p.seqlen_q;
  if (row >= rows) return;
  const i32 item = row / p.seqlen_q;
  const i32 query = row - item * p.seqlen_q;
  i32 entry = item / p.heads;
  const i32 head = item - entry * p.heads;
  i32 queries = p.seqlen_q;
  i32 token = 0;
  if (p.cu_seqlens_q != nullptr) {
    token = __ldg(p.cu_seqlens_q + entry);
    queries = __ldg(p.cu_seqlens_q + entry + 1) - token;
  }
  if (p.seqused_q != nullptr) queries = __ldg(p.seqused_q + entry);
  if (query >= queries) return;
  if (p.cu_seqlens_q != nullptr) entry = 0;

  sy::ptx::wait_for_previous_launch();  // for the parts
  const float mine = lane < p.splits ? __ldg(p.partial_lse + lane * rows + row) : -infinity;
  const float sink = p.sinks != nullptr ? __ldg(p.sinks + head) * log2_e : -infinity;
  const float most = fmaxf(most_of_warp(mine), sink);
  const float anchor = most > -infinity ? most : 0.0F;
  const float weight = exp2f(mine - anchor);
  const float sum = sum_of_warp(weight) + exp2f(sink - anchor);
  const float share = sum > 0.0F ? weight / sum : 0.0F;
  if (p.lse != nullptr && lane == 0) {
    p.lse[entry * p.lse_stride_batch + head * p.lse_stride_head + token + query] =
        sum > 0.0F ? (anchor + log2f(sum)) * ln_2 : -infinity;
  }
  T* const to = static_cast<T*>(p.out) + entry * p.out_stride_batch + head * p.out_stride_head +
                (token + query) * p.out_stride_token;
  for (i32 first = 0; first < p.dim_v; first += 128) {
    const i32 column = first + 4 * lane;
    float4 joined = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 4
    for (i32 part = 0; part < p.splits; ++part) {
      const float by = __shfl_sync(0xffffffff, share, part);
      if (column >= p.dim_v) continue;
      const float4 value =
          __ldg(reinterpret_cast<const float4*>(p.partial + (part * rows + row) * p.dim_v + column));
      joined.x = fmaf(by, value.x, joined.x);
      joined.y = fmaf(by, value.y, joined.y);
      joined.z = fmaf(by, value.z, joined.z);
      joined.w = fmaf(by, value.w, joined.w);
    }
    if (column < p.dim_v)
      *reinterpret_cast<uint2*>(to + column) =
          make_uint2(pack<T>(joined.x, joined.y), pack<T>(joined.z, joined.w));
  }
}

}  // namespace hopper

#define ATTENTION_COMBINE(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ hopper::parts p) { \
    hopper::combine<T>(p);                                                                          \
  }
