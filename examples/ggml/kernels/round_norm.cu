// SPDX-License-Identifier: MIT
// Normalisation rounded to 16 bits, on GPUs. Semantics: round_norm.hpp. A block computes a row, of which each
// thread holds `Fours` times four neighbours.
#include "../../../kernels/gpu/row.hpp"
#include "half_quad.hpp"

namespace sy {

using u8 = unsigned char;

struct norm_call {
  const u8* x;
  const u8* residual;
  const float* gamma;
  u8* sum;
  void* out;
  i64 rows, columns, x_stride, residual_stride, sum_stride;
  float epsilon;
};

template <class T, int Threads, int Fours>
__device__ __forceinline__ void round_norm(const norm_call& of) {
  begin_kernel();
  constexpr int warps = Threads / 32;
  __shared__ float partial[warps];
  const i64 row = block_index();
  const int fours = static_cast<int>(of.columns / 4);
  float values[Fours][4] = {};
#pragma unroll
  for (int j = 0; j < Fours; ++j) {
    const int index = j * Threads + thread_index();
    if (index < fours) unpack<float>(load_quad(of.x + row * of.x_stride + index * 16), values[j]);
  }
  if (of.residual != nullptr) {
#pragma unroll
    for (int j = 0; j < Fours; ++j) {
      const int index = j * Threads + thread_index();
      if (index >= fours) continue;
      float more[4];
      unpack<float>(load_quad(of.residual + row * of.residual_stride + index * 16), more);
#pragma unroll
      for (int e = 0; e < 4; ++e) values[j][e] += more[e];
      store_quad(of.sum + row * of.sum_stride + index * 16, pack<float>(values[j]));
    }
  }
  float squares = 0.0F;
#pragma unroll
  for (int j = 0; j < Fours; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) squares += values[j][e] * values[j][e];
  }
  squares = lane_sum<32>(squares);
  if (thread_index() % 32 == 0) partial[thread_index() / 32] = squares;
  block_barrier();
  float whole = 0.0F;
#pragma unroll
  for (int w = 0; w < warps; ++w) whole += partial[w];
  const float factor = reciprocal_square_root(whole / static_cast<float>(of.columns) + of.epsilon);
#pragma unroll
  for (int j = 0; j < Fours; ++j) {
    const int index = j * Threads + thread_index();
    if (index >= fours) continue;
    float gamma[4];
    unpack<float>(load_quad(of.gamma + index * 4), gamma);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[j][e] = values[j][e] * factor * gamma[e];
    static_cast<half_quad*>(of.out)[row * fours + index] = rounded_halves<T>(values[j]);
  }
}

}  // namespace sy

#define SY_GGML_ROUND_NORM(name, T, threads, fours)           \
  extern "C" SY_KERNEL(threads, 1) name(sy::norm_call call) { \
    sy::round_norm<sy::T, threads, fours>(call);              \
  }
