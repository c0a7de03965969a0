// SPDX-License-Identifier: MIT
// What comes before and after the products of attention backward on Hopper: row sums of dout * out, less the
// gradient of the LSE where there is one, the LSE in base 2 and zeroed sums of dq before; dq, scaled and
// rounded, after. Semantics: operators/attention_backward.hpp.
#include "hopper_backward.hpp"

namespace hopper {

/// A tile of queries of one head: tiles, then heads, then batch entries, the last first. The L2 cache still
/// has the sums that were added to last, and the products begin with what was prepared last.
struct row_tile {
  i32 first, head, entry;
  __device__ __forceinline__ row_tile(const backward_problem& p, i32 queries) {
    const i32 tiles = p.rows / queries;
    const i32 at = static_cast<i32>(gridDim.x - 1 - blockIdx.x);
    first = at % tiles * queries;
    head = at / tiles % p.heads;
    entry = at / tiles / p.heads;
  }
};

/// The gradient of the LSE: the LSE's layout, its own strides.
struct lse_gradient {
  const float* rows;
  i64 stride_batch, stride_head;
};

/// `Gradient`: an lse_gradient, or none.
template <class T, int Dim, int DimV, int Queries, class... Gradient>
__device__ __forceinline__ void prepare_rows(const backward_problem& p, const Gradient&... dlse) {
  constexpr int chunks = DimV / 8;  // of 16 bytes, a lane each
  constexpr int lanes = chunks > 16 ? 32 : chunks > 8 ? 16 : 8;
  constexpr int at_once = 256 / lanes;
  sy::ptx::allow_next_launch();
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.next_tile = 0;
  const row_tile at{p, Queries};
  const query_rows q = find_queries(p, at.entry);
  if (at.first >= q.count) return;
  const i64 row = static_cast<i64>(at.entry * p.heads + at.head) * p.rows + at.first;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto* const out = static_cast<const T*>(p.out) + q.entry * p.out_stride_batch +
                          at.head * p.out_stride_head + q.token * p.out_stride_token + 8 * lane;
  const auto* const dout = static_cast<const T*>(p.dout) + q.entry * p.dout_stride_batch +
                           at.head * p.dout_stride_head + q.token * p.dout_stride_token + 8 * lane;
  constexpr int rounds = Queries / at_once;
  uint4 o[rounds];
  uint4 d[rounds];
  float lse[rounds];
  float lse_slope[rounds];
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const i32 i = at.first + r * at_once + static_cast<i32>(threadIdx.x) / lanes;
    const bool live = i < q.count && lane < chunks;
    o[r] = d[r] = make_uint4(0, 0, 0, 0);
    if (live) {
      o[r] = __ldcs(reinterpret_cast<const uint4*>(out + i * p.out_stride_token));
      d[r] = *reinterpret_cast<const uint4*>(dout + i * p.dout_stride_token);
    }
    lse[r] = -infinity;
    lse_slope[r] = 0.0F;
    if (live && lane == 0) {
      lse[r] = p.lse[q.entry * p.lse_stride_batch + at.head * p.lse_stride_head + q.token + i];
      ((lse_slope[r] = dlse.rows[q.entry * dlse.stride_batch + at.head * dlse.stride_head + q.token + i]),
       ...);
    }
  }
  auto* const sums = reinterpret_cast<float4*>(p.dq_sum + row * Dim);
#pragma unroll
  for (int i = 0; i < Queries * Dim / 4; i += 256) {
    sums[i + static_cast<int>(threadIdx.x)] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const i32 local = r * at_once + static_cast<i32>(threadIdx.x) / lanes;
    const u32* const a = &o[r].x;
    const u32* const b = &d[r].x;
    float sum = 0.0F;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float2 x = unpack<T>(a[c]);
      const float2 y = unpack<T>(b[c]);
      sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
    }
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) {
      // Where a row sees nothing, the gradient may be NaN.
      if (sizeof...(Gradient) > 0 && lse[r] != -infinity) sum -= lse_slope[r];
      p.delta[row + local] = sum;
      p.scaled_lse[row + local] = lse[r] == -infinity ? infinity : lse[r] * log2_e;
    }
  }
}

template <class T, int Dim, int Queries>
__device__ __forceinline__ void finish_rows(const backward_problem& p) {
  using share = dq_shares<Dim, Queries>;
  sy::ptx::wait_for_previous_launch();
  const row_tile at{p, Queries};
  const query_rows q = find_queries(p, at.entry);
  if (at.first >= q.count) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i64 row = static_cast<i64>(at.entry * p.heads + at.head) * p.rows + at.first;
  const auto* const from =
      reinterpret_cast<const float4*>(p.dq_sum + row * Dim) + warp * (share::warp_bytes / 16) + lane;
  float d[share::count];
#pragma unroll
  for (int i = 0; i < share::count / 4; ++i) {
    const float4 four = __ldcs(from + 32 * i);
    d[4 * i] = four.x * p.scale;
    d[4 * i + 1] = four.y * p.scale;
    d[4 * i + 2] = four.z * p.scale;
    d[4 * i + 3] = four.w * p.scale;
  }
  const i32 here = at.first + (share::by_rows ? warp / 4 * 64 : 0) + warp % 4 * 16 + lane / 4;
  auto* const to = static_cast<T*>(p.dq) + q.entry * p.dq_stride_batch + at.head * p.dq_stride_head +
                   (q.token + here) * p.dq_stride_token + (share::by_rows ? 0 : warp / 4 * share::columns);
  const float one[2] = {1.0F, 1.0F};
  store_rows<T>(d, one, to, p.dq_stride_token, -8, q.count - here, lane % 4);
}

/// Zeroes the sums of dk and dv of keys that are there, a block of 128 keys and a KV head.
template <int Dim, int DimV>
__device__ __forceinline__ void clear_keys(const backward_problem& p) {
  const i32 tiles = p.rows_k / 128;
  const i32 first = static_cast<i32>(blockIdx.x) % tiles * 128;
  const i32 head = static_cast<i32>(blockIdx.x) / tiles % p.heads_kv;
  const i32 entry = static_cast<i32>(blockIdx.x) / tiles / p.heads_kv;
  if (first >= find_keys(p, entry).count) return;
  const i64 row = static_cast<i64>(entry * p.heads_kv + head) * p.rows_k + first;
  const auto clear = [&]<int Columns>(float* sums) {
    auto* const to = reinterpret_cast<float4*>(sums + row * Columns) + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < 128 * Columns / 4; i += 256) to[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  };
  clear.template operator()<Dim>(p.dk_sum);
  clear.template operator()<DimV>(p.dv_sum);
}

/// dk and dv of their sums, a block of 128 keys and a KV head.
template <class T, int Dim, int DimV>
__device__ __forceinline__ void finish_keys(const backward_problem& p) {
  sy::ptx::wait_for_previous_launch();
  const i32 tiles = p.rows_k / 128;
  const i32 first = static_cast<i32>(blockIdx.x) % tiles * 128;
  const i32 head = static_cast<i32>(blockIdx.x) / tiles % p.heads_kv;
  const i32 entry = static_cast<i32>(blockIdx.x) / tiles / p.heads_kv;
  const query_rows k = find_keys(p, entry);
  if (first >= k.count) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i64 row = static_cast<i64>(entry * p.heads_kv + head) * p.rows_k + first;
  const i32 here = first + warp * 16 + lane / 4;
  const auto finish = [&]<int Columns>(const float* sums, T* to, i64 stride, float factor) {
    const auto* const from =
        reinterpret_cast<const float4*>(sums + row * Columns) + warp * (Columns * 4) + lane;
    float d[Columns / 2];
#pragma unroll
    for (int i = 0; i < Columns / 8; ++i) {
      const float4 four = __ldcs(from + 32 * i);
      d[4 * i] = four.x;
      d[4 * i + 1] = four.y;
      d[4 * i + 2] = four.z;
      d[4 * i + 3] = four.w;
    }
    const float share[2] = {factor, factor};
    store_rows<T>(d, share, to + (k.token + here) * stride, stride, -8, k.count - here, lane % 4);
  };
  finish.template operator()<Dim>(
      p.dk_sum, static_cast<T*>(p.dk) + k.entry * p.dk_stride_batch + head * p.dk_stride_head,
      p.dk_stride_token, p.scale);
  finish.template operator()<DimV>(
      p.dv_sum, static_cast<T*>(p.dv) + k.entry * p.dv_stride_batch + head * p.dv_stride_head,
      p.dv_stride_token, 1.0F);
}

}  // namespace hopper

#define ATTENTION_BACKWARD_FINISH_KEYS(name, ...)                \
  extern "C" __global__ void __launch_bounds__(256)              \
      name(const __grid_constant__ hopper::backward_problem p) { \
    hopper::finish_keys<__VA_ARGS__>(p);                         \
  }

#define ATTENTION_BACKWARD_CLEAR_KEYS(name, ...)                 \
  extern "C" __global__ void __launch_bounds__(256)              \
      name(const __grid_constant__ hopper::backward_problem p) { \
    hopper::clear_keys<__VA_ARGS__>(p);                          \
  }

#define ATTENTION_BACKWARD_PREPARE(name, ...)                    \
  extern "C" __global__ void __launch_bounds__(256)              \
      name(const __grid_constant__ hopper::backward_problem p) { \
    hopper::prepare_rows<__VA_ARGS__>(p);                        \
  }

#define ATTENTION_BACKWARD_PREPARE_DLSE(name, ...)                                                          \
  extern "C" __global__ void __launch_bounds__(256)                                                         \
      name(const __grid_constant__ hopper::backward_problem p, const float* dlse, hopper::i64 stride_batch, \
           hopper::i64 stride_head) {                                                                       \
    hopper::prepare_rows<__VA_ARGS__>(p, hopper::lse_gradient{dlse, stride_batch, stride_head});            \
  }

#define ATTENTION_BACKWARD_FINISH(name, ...)                     \
  extern "C" __global__ void __launch_bounds__(256)              \
      name(const __grid_constant__ hopper::backward_problem p) { \
    hopper::finish_rows<__VA_ARGS__>(p);                         \
  }
