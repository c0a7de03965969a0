// SPDX-License-Identifier: MIT
// The last launch of hopper_gemm.cu where blocks share the inputs of a tile.
#include "../gpu/ptx.hpp"

namespace hopper::gemm {

using sy::ptx::pack;

/// Adds the sums of all splits: [splits, panels of 32 outputs, rows], with the 128-byte swizzle. A thread has
/// four outputs.
__device__ __forceinline__ void add_splits(const char* partial, const float* bias, char* out, long long rows,
                                           long long out_features, long long out_stride_row, int splits,
                                           int out_dtype) {
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  const long long column = 4 * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
  const long long row = blockIdx.y;
  if (column >= out_features) return;
  const long long panels = (out_features + 31) / 32;
  const char* const first = partial + (column / 32 * rows + row) * 128 + ((column / 4 % 8) ^ (row % 8)) * 16;
  float4 sum = *reinterpret_cast<const float4*>(first);
  for (int split = 1; split < splits; ++split) {
    const float4 more = *reinterpret_cast<const float4*>(first + split * panels * rows * 128);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  float v[4]{sum.x, sum.y, sum.z, sum.w};
  const int left = out_features - column < 4 ? static_cast<int>(out_features - column) : 4;
  if (bias != nullptr) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < left) v[i] += __ldg(bias + column + i);
  }
  const long long at = row * out_stride_row + column;
  if (out_dtype == 2) {
    float* const to = reinterpret_cast<float*>(out) + at;
    if (left == 4) {
      *reinterpret_cast<float4*>(to) = {v[0], v[1], v[2], v[3]};
    } else {
      for (int i = 0; i < 3; ++i)
        if (i < left) to[i] = v[i];
    }
    return;
  }
  uint2 words;
  if (out_dtype == 0) {
    words = {pack<__half>(v[0], v[1]), pack<__half>(v[2], v[3])};
  } else {
    words = {pack<__nv_bfloat16>(v[0], v[1]), pack<__nv_bfloat16>(v[2], v[3])};
  }
  auto* const to = reinterpret_cast<unsigned short*>(out) + at;
  if (left == 4) {
    *reinterpret_cast<uint2*>(to) = words;
  } else {
    to[0] = static_cast<unsigned short>(words.x);
    if (left > 1) to[1] = static_cast<unsigned short>(words.x >> 16);
    if (left > 2) to[2] = static_cast<unsigned short>(words.y);
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM_SUM(NAME)                                                                            \
  extern "C" __global__ void __launch_bounds__(256)                                                      \
      NAME(const char* partial, const float* bias, char* out, long long rows, long long out_features,    \
           long long out_stride_row, int splits, int out_dtype) {                                        \
    hopper::gemm::add_splits(partial, bias, out, rows, out_features, out_stride_row, splits, out_dtype); \
  }
