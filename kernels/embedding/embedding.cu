// SPDX-License-Identifier: MIT
// Rows of a table, quantised or not, by their numbers. Semantics: operators/embedding.hpp.
//
// A thread takes `Vectors` times eight neighbours of a row of the result, `Threads` such apart, and loads
// them all before it converts the first. Table rows of a multiple of `Align` bytes; with Wide the rows of the
// result lie at multiples of 16 bytes and of eight columns.
#include "../gpu/weight_blocks.hpp"

namespace sy {

template <class T, weight_format Format, int Align, bool Wide, int Threads, int Vectors>
__device__ __forceinline__ void gather(const u8* table, const i32* ids, T* out, i64 columns, i64 table_rows,
                                       i64 out_stride_row, i64 table_row_bytes) {
  begin_kernel();
  const u32 eights = static_cast<u32>((columns + 7) / 8);
  const u32 blocks_in_row = (eights + Threads * Vectors - 1) / (Threads * Vectors);
  const u32 row = static_cast<u32>(block_index()) / blocks_in_row;
  const u32 first =
      (static_cast<u32>(block_index()) - row * blocks_in_row) * (Threads * Vectors) + thread_index();
  const i64 id = ids[row];
  const bool is_known = id >= 0 && id < table_rows;
  const u8* from = table + (is_known ? id : 0) * table_row_bytes;
  T* to_row = out + static_cast<i64>(row) * out_stride_row;

  eight_weights<Format, Align> weights[Vectors];
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const u32 index = first + j * Threads;
    if (is_known && index < eights) weights[j].load(from, index, columns - static_cast<i64>(index) * 8);
  }
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const u32 index = first + j * Threads;
    if (index >= eights) break;
    float values[8];
    if (is_known) {
      weights[j].get(values);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = as_float(0x7FC00000U);
    }
    T* to = to_row + static_cast<i64>(index) * 8;
    if constexpr (!Wide) {
      const i64 left = columns - static_cast<i64>(index) * 8;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (e < left) from_float(values[e], to[e]);
      }
    } else {
      constexpr int width = width_of<T>;
#pragma unroll
      for (int part = 0; part < 8 / width; ++part) {
        float some[width];
#pragma unroll
        for (int e = 0; e < width; ++e) some[e] = values[part * width + e];
        store_quad(to + part * width, pack<T>(some));
      }
    }
  }
}

}  // namespace sy

#define SY_EMBEDDING(name, T, format, align, wide, threads, vectors)                              \
  extern "C" SY_KERNEL(threads, 1)                                                                \
      name(const void* table, const sy::i32* ids, void* out, sy::i64 columns, sy::i64 table_rows, \
           sy::i64 out_stride_row, sy::i64 table_row_bytes) {                                     \
    sy::gather<sy::T, sy::weight_format::format, align, wide, threads, vectors>(                  \
        static_cast<const sy::u8*>(table), ids, static_cast<sy::T*>(out), columns, table_rows,    \
        out_stride_row, table_row_bytes);                                                         \
  }
