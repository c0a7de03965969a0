// SPDX-License-Identifier: MIT
// Operands of hopper_gemm.cu from rows of any format of gpu/weight_blocks.hpp: f16 or bf16, a block for each
// row.
//
// A row is multiplied with a power of two that brings its largest element to [2^14, 2^15), so that f16
// neither overflows nor loses bits of what is up to 2^28 times smaller. The results of the product are
// multiplied with its inverse. With two addends a row is kept to twice the bits: the rounded row, and what
// rounding took away, rounded.
//
// Operands lie as the product reads them: [addends, panels of 64 elements, rows, 64], zeros behind a row's
// last element, and the eights of each 128 bytes swizzled. A stage is then one piece of memory.
#include "../gpu/weight_blocks.hpp"

namespace sy::operands {

inline constexpr int threads = 256;
inline constexpr int kept = 4;  ///< eights of a row that a thread reads once

/// A matrix and its operands.
struct matrix {
  const u8* from;
  i64 row_bytes;
  char* to;
  float* scales;  ///< of the results
  i64 rows;
};
struct arguments {
  matrix x, w;  ///< rows of w follow those of x in the grid; either may have none
  i64 in_features;
};

template <class T>
__device__ __forceinline__ float round_to(float value) {
  const u32 word = ptx::pack<T>(value, 0.0F);
  return ptx::unpack<T>(word).x;
}

template <class T>
__device__ __forceinline__ uint4 packed(const float (&v)[8]) {
  return make_uint4(ptx::pack<T>(v[0], v[1]), ptx::pack<T>(v[2], v[3]), ptx::pack<T>(v[4], v[5]),
                    ptx::pack<T>(v[6], v[7]));
}

/// The largest |value| of a block's threads; NaNs are passed over.
__device__ __forceinline__ float largest_of_block(float most) {
  __shared__ float of_warps[threads / 32];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, lanes));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < threads / 32; ++warp) most = fmaxf(most, of_warps[warp]);
  return most;
}

template <class T, weight_format Format, int Align, int Addends>
__device__ __forceinline__ void make_row(const matrix& of, i64 row, i64 elements) {
  const u8* const from = of.from + row * of.row_bytes;
  const u32 eights = static_cast<u32>(elements / 8);
  const u32 panels = static_cast<u32>((elements + 63) / 64);
  const auto place = [&](u32 eight, int addend) {
    const u32 swizzled = (eight ^ static_cast<u32>(row)) % 8;
    return reinterpret_cast<uint4*>(of.to) + ((eight / 8 + addend * panels) * of.rows + row) * 8 + swizzled;
  };
  float most = 0.0F;
  const auto look = [&](const float(&values)[8]) {
#pragma unroll
    for (int e = 0; e < 8; ++e) most = fmaxf(most, fabsf(values[e]));
  };
  eight_weights<Format, Align> read[kept];
  float values[kept][8];
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const u32 eight = i * threads + threadIdx.x;
    if (eight < eights) read[i].load(from, eight, 8);
  }
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    if (i * threads + threadIdx.x >= eights) break;
    read[i].get(values[i]);
    look(values[i]);
  }
  for (u32 eight = kept * threads + threadIdx.x; eight < eights; eight += threads) {
    eight_weights<Format, Align> more;
    more.load(from, eight, 8);
    float of_more[8];
    more.get(of_more);
    look(of_more);
  }
  most = largest_of_block(most);
  // 2^(14 - exponent of the largest), between 2^-114 and 2^126
  const int exponent = static_cast<int>(__float_as_uint(most) >> 23U);
  const int shift = most == 0.0F ? 0 : min(141 - exponent, 126);
  const float scale = __uint_as_float(static_cast<u32>(shift + 127) << 23U);
  if (threadIdx.x == 0) of.scales[row] = __uint_as_float(static_cast<u32>(127 - shift) << 23U);
  const auto write = [&](float(&of)[8], u32 eight) {
#pragma unroll
    for (int e = 0; e < 8; ++e) of[e] *= scale;
    *place(eight, 0) = packed<T>(of);
    if constexpr (Addends == 2) {
#pragma unroll
      for (int e = 0; e < 8; ++e) of[e] -= round_to<T>(of[e]);
      *place(eight, 1) = packed<T>(of);
    }
  };
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    if (i * threads + threadIdx.x >= eights) break;
    write(values[i], i * threads + threadIdx.x);
  }
  for (u32 eight = kept * threads + threadIdx.x; eight < eights; eight += threads) {
    eight_weights<Format, Align> more;
    more.load(from, eight, 8);
    float of_more[8];
    more.get(of_more);
    write(of_more, eight);
  }
  if (eights + threadIdx.x < panels * 8) {
#pragma unroll
    for (int addend = 0; addend < Addends; ++addend)
      *place(eights + threadIdx.x, addend) = make_uint4(0, 0, 0, 0);
  }
}

template <class T, weight_format X, int XAddends, weight_format W, int WAddends, int Align>
__device__ __forceinline__ void make(const arguments& a) {
  ptx::wait_for_previous_launch();
  ptx::allow_next_launch();
  const i64 block = blockIdx.x;
  if (block < a.x.rows) {
    make_row<T, X, 16, XAddends>(a.x, block, a.in_features);
  } else {
    make_row<T, W, Align, WAddends>(a.w, block - a.x.rows, a.in_features);
  }
}

}  // namespace sy::operands

/// Operands of x and of w, in so many addends.
#define HOPPER_OPERANDS(NAME, T, X, X_ADDENDS, W, W_ADDENDS, ALIGN)                                    \
  extern "C" __global__ void __launch_bounds__(sy::operands::threads)                                  \
      NAME(const __grid_constant__ sy::operands::arguments a) {                                        \
    sy::operands::make<T, sy::weight_format::X, X_ADDENDS, sy::weight_format::W, W_ADDENDS, ALIGN>(a); \
  }
