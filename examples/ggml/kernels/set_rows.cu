// SPDX-License-Identifier: MIT
// Writes rows at given places on GPUs. Semantics: set_rows.hpp. A row whose place is outside of out is
// skipped.
//
// A thread takes four neighbours of a row. Eight threads share a block of q8_0.
#include "half_quad.hpp"
#include "row_place_gpu.hpp"

namespace sy {

using u8 = unsigned char;

struct set_rows_call {
  const u8* x;
  const u8* ids;
  u8* out;
  i64 columns, out_rows;
  i64 extent[3], ids_extent[2], x_stride[3], ids_stride[3], out_stride[3];
  i32 x_dtype, ids_dtype, out_format;
};

/// As base/dtype.hpp and operators/weight_format.hpp count them.
enum : i32 { x_f16 = 0, x_bf16 = 1, ids_i32 = 7 };
enum : i32 { out_f32 = 0, out_f16 = 1, out_bf16 = 2, out_q8_0 = 3 };

template <class T>
__device__ __forceinline__ void read_halves(const u8* row, i64 column, i64 columns, bool is_wide,
                                            float (&values)[4]) {
  const T* from = reinterpret_cast<const T*>(row) + column;
  if (is_wide) {
    const half_quad all = *reinterpret_cast<const half_quad*>(from);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[e] = to_float(T{all.part[e]});
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) values[e] = column + e < columns ? to_float(from[e]) : 0.0F;
  }
}

__device__ __forceinline__ void read_four(i32 type, const u8* row, i64 column, i64 columns, bool is_wide,
                                          float (&values)[4]) {
  if (type == x_f16) return read_halves<f16>(row, column, columns, is_wide, values);
  if (type == x_bf16) return read_halves<bf16>(row, column, columns, is_wide, values);
  const float* from = reinterpret_cast<const float*>(row) + column;
  if (is_wide) {
    unpack<float>(load_quad(from), values);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) values[e] = column + e < columns ? from[e] : 0.0F;
  }
}

template <class T>
__device__ __forceinline__ void write_halves(u8* row, i64 column, i64 columns, bool is_wide,
                                             const float (&values)[4]) {
  T* to = reinterpret_cast<T*>(row) + column;
  const half_quad all = rounded_halves<T>(values);
  if (is_wide) {
    *reinterpret_cast<half_quad*>(to) = all;
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column + e < columns) to[e] = T{all.part[e]};
    }
  }
}

__device__ __forceinline__ void write_four(i32 format, u8* row, i64 column, i64 columns, bool is_wide,
                                           const float (&values)[4]) {
  if (format == out_f16) return write_halves<f16>(row, column, columns, is_wide, values);
  if (format == out_bf16) return write_halves<bf16>(row, column, columns, is_wide, values);
  float* to = reinterpret_cast<float*>(row) + column;
  if (is_wide) {
    store_quad(to, pack<float>(values));
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column + e < columns) to[e] = values[e];
    }
  }
}

/// Four of the 32 values of a block; the other lanes of the group of eight have the rest. All lanes of the
/// warp must enter.
__device__ __forceinline__ void write_block(u8* row, i64 column, bool is_written, const float (&values)[4]) {
  constexpr float infinity = __builtin_huge_valf();
  float largest = 0.0F;
  float unbounded = 0.0F;  // 1: there is a NaN or an infinity
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float size = values[e] < 0.0F ? -values[e] : values[e];
    if (!(size < infinity)) unbounded = 1.0F;
    largest = maximum(largest, size);
  }
#pragma unroll
  for (int mask = 1; mask < 8; mask *= 2) {
    largest = maximum(largest, shuffle_xor(largest, mask));
    unbounded = maximum(unbounded, shuffle_xor(unbounded, mask));
  }
  if (!is_written) return;
  const float scale = unbounded != 0.0F ? as_float(0x7FC00000U) : largest / 127.0F;
  const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
  u8* block = row + column / 32 * 34;
  const auto first = static_cast<int>(column % 32);
  if (first == 0) from_float(scale, *reinterpret_cast<f16*>(block));
  u32 bytes[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float x = minimum(127.0F, maximum(-127.0F, values[e] * inverse));
    bytes[e] = static_cast<u32>(static_cast<i32>(x < 0.0F ? x - 0.5F : x + 0.5F)) & 0xFFU;
  }
  auto* to = reinterpret_cast<u16*>(block + 2 + first);
  to[0] = static_cast<u16>(bytes[0] | bytes[1] << 8U);
  to[1] = static_cast<u16>(bytes[2] | bytes[3] << 8U);
}

template <int Threads>
__device__ __forceinline__ void set_rows(const set_rows_call& of) {
  begin_kernel();
  const i64 fours = (of.columns + 3) / 4;
  const i64 index = static_cast<i64>(block_index()) * Threads + thread_index();
  const bool is_inside = index < fours * of.extent[0] * of.extent[1] * of.extent[2];
  const split_index at{is_inside ? index : 0, fours};
  const place_of_row place{at.quotient, of.extent};
  const u8* number = of.ids + place.i * of.ids_stride[0] +
                     split_index{place.j, of.ids_extent[0]}.rest * of.ids_stride[1] +
                     split_index{place.k, of.ids_extent[1]}.rest * of.ids_stride[2];
  const i64 id = of.ids_dtype == ids_i32 ? static_cast<i64>(*reinterpret_cast<const i32*>(number))
                                         : *reinterpret_cast<const i64*>(number);
  const bool is_written = is_inside && id >= 0 && id < of.out_rows;
  const i64 column = at.rest * 4;
  const bool is_whole = of.columns % 4 == 0;
  const u64 x_bytes = of.x_dtype == x_f16 || of.x_dtype == x_bf16 ? 8 : 16;
  float values[4];
  read_four(of.x_dtype, of.x + place.offset(of.x_stride), column, of.columns,
            is_whole && is_aligned(of.x, of.x_stride, x_bytes), values);
  u8* to = of.out + id * of.out_stride[0] + place.j * of.out_stride[1] + place.k * of.out_stride[2];
  if (of.out_format == out_q8_0) return write_block(to, column, is_written, values);
  if (!is_written) return;
  const u64 out_bytes = of.out_format == out_f32 ? 16 : 8;
  write_four(of.out_format, to, column, of.columns, is_whole && is_aligned(of.out, of.out_stride, out_bytes),
             values);
}

}  // namespace sy

#define SY_GGML_SET_ROWS(name, threads)                           \
  extern "C" SY_KERNEL(threads, 1) name(sy::set_rows_call call) { \
    sy::set_rows<threads>(call);                                  \
  }
