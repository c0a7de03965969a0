// Rows of a table, quantised or not, by their numbers. Semantics: operators/embedding.hpp.
//
// A thread takes `Vectors` times eight neighbours of a row of the result, `Threads` such apart, and loads
// them all before it converts the first. Table rows of a multiple of `Align` bytes; with Wide the rows of the
// result lie at multiples of 16 bytes and of eight columns.
#include "../gpu/split_index.hpp"
#include "../gpu/weight_blocks.hpp"

namespace sy {

template <class T, weight_format Format, int Align, bool Wide, int Threads, int Vectors>
__device__ __forceinline__ void gather(const u8* table, const i32* ids, T* out, i64 rows, i64 columns,
                                       i64 table_rows, i64 out_stride_row, i64 table_row_bytes) {
  begin_kernel();
  const i64 eights = (columns + 7) / 8;
  const i64 total = rows * eights;
  const i64 first = static_cast<i64>(block_index()) * (Threads * Vectors) + thread_index();
  eight_weights<Format, Align> weights[Vectors];
  bool is_known[Vectors];
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    is_known[j] = false;
    if (index < total) {
      const split_index at{index, eights};
      const i64 id = ids[at.quotient];
      is_known[j] = id >= 0 && id < table_rows;
      if (is_known[j])
        weights[j].load(table + id * table_row_bytes, static_cast<u32>(at.rest), columns - 8 * at.rest);
    }
  }
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    if (index < total) {
      const split_index at{index, eights};
      float values[8];
      if (is_known[j]) {
        weights[j].get(values);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = as_float(0x7FC00000U);
      }
      T* to = out + at.quotient * out_stride_row + at.rest * 8;
      if constexpr (!Wide) {
        const i64 left = columns - 8 * at.rest;
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
}

}  // namespace sy

#define SY_EMBEDDING(name, T, format, align, wide, threads, vectors)                                 \
  extern "C" SY_KERNEL(threads, 1)                                                                   \
      name(const void* table, const sy::i32* ids, void* out, sy::i64 rows, sy::i64 columns,          \
           sy::i64 table_rows, sy::i64 out_stride_row, sy::i64 table_row_bytes) {                    \
    sy::gather<sy::T, sy::weight_format::format, align, wide, threads, vectors>(                     \
        static_cast<const sy::u8*>(table), ids, static_cast<sy::T*>(out), rows, columns, table_rows, \
        out_stride_row, table_row_bytes);                                                            \
  }
