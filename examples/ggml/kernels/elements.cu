// SPDX-License-Identifier: MIT
// Element-wise operations and copies on GPUs. Semantics: elements.hpp.
//
// A thread computes `Width` neighbours of a row: four where they lie together in every tensor, else one. What
// is computed is known at run time only: the branches are the same for all threads, and cost little beside
// the memory's time.
#include "../../../kernels/gpu/split_index.hpp"
#include "element_functions.hpp"
#include "half_quad.hpp"

namespace sy {

using u8 = unsigned char;

struct element_call {
  const u8* a;
  const u8* b;
  u8* out;
  i64 extent[4], b_extent[4], a_stride[4], b_stride[4], out_stride[4];
  float p, q;
  i32 a_dtype, b_dtype, out_dtype, function;
};

/// As base/dtype.hpp counts them.
enum : i32 { as_f16 = 0, as_bf16 = 1, as_f32 = 2, as_i32 = 7, as_i64 = 8 };

enum class element_function : i32 {
#define SWITCHYARD_GGML_ENUMERATOR(name, expression) name,
  SWITCHYARD_GGML_UNARY_FUNCTIONS(SWITCHYARD_GGML_ENUMERATOR)
      SWITCHYARD_GGML_BINARY_FUNCTIONS(SWITCHYARD_GGML_ENUMERATOR)
#undef SWITCHYARD_GGML_ENUMERATOR
};

template <class T, int Width>
__device__ __forceinline__ void read_as(const u8* from, float (&values)[Width]) {
  if constexpr (Width == 1) {
    values[0] = to_float(*reinterpret_cast<const T*>(from));
  } else {
    const half_quad all = *reinterpret_cast<const half_quad*>(from);
#pragma unroll
    for (int e = 0; e < Width; ++e) values[e] = to_float(T{all.part[e]});
  }
}

template <int Width>
__device__ __forceinline__ void read(i32 type, const u8* from, float (&values)[Width]) {
  if (type == as_f16) return read_as<f16>(from, values);
  if (type == as_bf16) return read_as<bf16>(from, values);
  u32 words[Width];
  if constexpr (Width == 4) {
    const quad all = load_quad(from);
#pragma unroll
    for (int e = 0; e < 4; ++e) words[e] = all.word[e];
  } else {
    words[0] = *reinterpret_cast<const u32*>(from);
  }
#pragma unroll
  for (int e = 0; e < Width; ++e)
    values[e] = type == as_i32 ? static_cast<float>(static_cast<i32>(words[e])) : as_float(words[e]);
}

template <class T, int Width>
__device__ __forceinline__ void write_as(u8* to, const float (&values)[Width]) {
  if constexpr (Width == 1) {
    from_float(values[0], *reinterpret_cast<T*>(to));
  } else {
    *reinterpret_cast<half_quad*>(to) = rounded_halves<T>(values);
  }
}

template <int Width>
__device__ __forceinline__ void write(i32 type, u8* to, const float (&values)[Width]) {
  if (type == as_f16) return write_as<f16>(to, values);
  if (type == as_bf16) return write_as<bf16>(to, values);
  u32 words[Width];
#pragma unroll
  for (int e = 0; e < Width; ++e) {
    words[e] =
        type == as_i32 ? static_cast<u32>(static_cast<i32>(values[e])) : __builtin_bit_cast(u32, values[e]);
  }
  if constexpr (Width == 4) {
    store_quad(to, quad{{words[0], words[1], words[2], words[3]}});
  } else {
    *reinterpret_cast<u32*>(to) = words[0];
  }
}

template <int Width>
__device__ __forceinline__ void copy_bits(i32 type, const u8* from, u8* to) {
  if (type == as_i64) {
    if constexpr (Width == 1) *reinterpret_cast<u64*>(to) = *reinterpret_cast<const u64*>(from);
  } else if (type == as_f16 || type == as_bf16) {
    if constexpr (Width == 1) {
      *reinterpret_cast<u16*>(to) = *reinterpret_cast<const u16*>(from);
    } else {
      *reinterpret_cast<half_quad*>(to) = *reinterpret_cast<const half_quad*>(from);
    }
  } else {
    if constexpr (Width == 1) {
      *reinterpret_cast<u32*>(to) = *reinterpret_cast<const u32*>(from);
    } else {
      store_quad(to, load_quad(from));
    }
  }
}

__device__ __forceinline__ float lesser(float a, float b) {
  return b < a ? b : a;
}
__device__ __forceinline__ float greater(float a, float b) {
  return a < b ? b : a;
}
__device__ __forceinline__ float logistic(float x) {
  return 1.0F / (1.0F + exp(-x));
}

__device__ __forceinline__ float tanh_gelu(float x) {
  return 0.5F * x * (1.0F + tanh(0.79788456080286535588F * x * (1.0F + 0.044715F * x * x)));
}

/// ALiBi's slope of a head, for the largest bias q; 1 without one.
__device__ __forceinline__ float slope_of(const element_call& of, i64 head) {
  if (static_cast<element_function>(of.function) != element_function::masked_score || of.q <= 0) return 1.0F;
  i64 power = 1;
  while (power * 2 <= of.extent[2]) power *= 2;
  const float step = of.q / static_cast<float>(power);
  return head < power ? exp2(-step * static_cast<float>(head + 1))
                      : exp2(-step * 0.5F * static_cast<float>(2 * (head - power) + 1));
}

template <int Width>
__device__ __forceinline__ void compute(const element_call& of, float slope, const float (&a)[Width],
                                        const float (&b)[Width], float (&out)[Width]) {
  const float p = of.p;
  const float q = of.q;
#define SWITCHYARD_GGML_CASE(name, expression)          \
  case element_function::name: {                        \
    _Pragma("unroll") for (int e = 0; e < Width; ++e) { \
      [[maybe_unused]] const float x = a[e];            \
      [[maybe_unused]] const float y = b[e];            \
      out[e] = expression;                              \
    }                                                   \
    break;                                              \
  }
  switch (static_cast<element_function>(of.function)) {
    SWITCHYARD_GGML_UNARY_FUNCTIONS(SWITCHYARD_GGML_CASE)
    SWITCHYARD_GGML_BINARY_FUNCTIONS(SWITCHYARD_GGML_CASE)
  }
#undef SWITCHYARD_GGML_CASE
}

/// An index of out as one of b, whose extent divides out's.
__device__ __forceinline__ i64 repeated(i64 index, i64 extent, i64 b_extent) {
  if (b_extent == extent) return index;
  return b_extent == 1 ? 0 : split_index{index, b_extent}.rest;
}

template <int Width, int Threads>
__device__ __forceinline__ void elements(const element_call& of) {
  begin_kernel();
  const i64 in_row = of.extent[0] / Width;
  const i64 index = static_cast<i64>(block_index()) * Threads + thread_index();
  if (index >= in_row * of.extent[1] * of.extent[2] * of.extent[3]) return;
  const split_index row{index, in_row};
  i64 at[4] = {row.rest * Width, row.quotient, 0, 0};
  if (of.extent[2] * of.extent[3] > 1) {
    const split_index matrix{row.quotient, of.extent[1]};
    const split_index cube{matrix.quotient, of.extent[2]};
    at[1] = matrix.rest;
    at[2] = cube.rest;
    at[3] = cube.quotient;
  }
  const u8* a = of.a;
  u8* out = of.out;
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    a += at[d] * of.a_stride[d];
    out += at[d] * of.out_stride[d];
  }
  const auto function = static_cast<element_function>(of.function);
  if (function == element_function::copy && of.a_dtype == of.out_dtype)
    return copy_bits<Width>(of.a_dtype, a, out);
  float x[Width] = {};
  float y[Width] = {};
  const bool needs_a =
      function != element_function::repeat && (function != element_function::masked_score || of.p != 0.0F);
  if (needs_a) read(of.a_dtype, a, x);
  if (function >= element_function::add) {
    const u8* b = of.b;
#pragma unroll
    for (int d = 0; d < 4; ++d) b += repeated(at[d], of.extent[d], of.b_extent[d]) * of.b_stride[d];
    if (Width > 1 && of.b_extent[0] == 1) {
      float one[1];
      read(of.b_dtype, b, one);
#pragma unroll
      for (int e = 0; e < Width; ++e) y[e] = one[0];
    } else {
      read(of.b_dtype, b, y);
    }
  }
  float results[Width];
  compute(of, slope_of(of, at[2]), x, y, results);
  write(of.out_dtype, out, results);
}

}  // namespace sy

#define SY_GGML_ELEMENTS(name, width, threads)                   \
  extern "C" SY_KERNEL(threads, 1) name(sy::element_call call) { \
    sy::elements<width, threads>(call);                          \
  }
