// SPDX-License-Identifier: MIT
// Unpacks rows of blocks on GPUs. Semantics: unpack_rows.hpp. A thread takes eight neighbours of a row.
#include "../../../kernels/gpu/weight_blocks.hpp"
#include "row_place_gpu.hpp"

namespace sy {

struct unpack_call {
  const u8* x;
  u8* out;
  i64 columns;
  i64 extent[3], x_stride[3], out_stride[3];
};

template <weight_format Format, int Align, class T, int Threads>
__device__ __forceinline__ void unpack_rows(const unpack_call& of) {
  begin_kernel();
  const i64 eights = of.columns / 8;
  const i64 index = static_cast<i64>(block_index()) * Threads + thread_index();
  if (index >= eights * of.extent[0] * of.extent[1] * of.extent[2]) return;
  const split_index at{index, eights};
  const place_of_row place{at.quotient, of.extent};
  eight_weights<Format, Align> weights;
  weights.load(of.x + place.offset(of.x_stride), static_cast<u32>(at.rest), 8);
  float values[8];
  weights.get(values);
  T* to = reinterpret_cast<T*>(of.out + place.offset(of.out_stride)) + at.rest * 8;
  constexpr int width = width_of<T>;
  if (is_aligned(of.out, of.out_stride, 16)) {
#pragma unroll
    for (int part = 0; part < 8 / width; ++part) {
      float some[width];
#pragma unroll
      for (int e = 0; e < width; ++e) some[e] = values[part * width + e];
      store_quad(to + part * width, pack<T>(some));
    }
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) from_float(values[e], to[e]);
  }
}

}  // namespace sy

#define SY_GGML_UNPACK_ROWS(name, format, align, T, threads)                 \
  extern "C" SY_KERNEL(threads, 1) name(sy::unpack_call call) {              \
    sy::unpack_rows<sy::weight_format::format, align, sy::T, threads>(call); \
  }
