// SPDX-License-Identifier: MIT
// Gated activations, forward and backward. Semantics: operators/gated_activation.hpp and its backward.
//
// A thread takes `Vectors` vectors, `Threads` apart, loads them all before it uses the first, and is done:
// with nothing to share, many small blocks keep more loads under way than a persistent loop would.
#include "../gpu/portable.hpp"

namespace sy {

enum class gate { silu = 0, gelu = 1, gelu_tanh = 2 };

/// activation(x) and its derivative at x.
template <gate Function>
__device__ __forceinline__ void activate(float x, float& value, float& slope) {
  constexpr float log2_e = 1.4426950408889634F;
  if constexpr (Function == gate::silu) {
    const float sigmoid = reciprocal(1.0F + exp2_approximate(-log2_e * x));
    value = x * sigmoid;
    slope = sigmoid + value * (1.0F - sigmoid);
  } else if constexpr (Function == gate::gelu_tanh) {
    // 1/2 (1 + tanh(y)) is the logistic function of 2y: no cancellation, one power and one reciprocal.
    constexpr float factor = 2.0F * 0.7978845608028654F;
    const float square = minimum(x * x, 1e30F);  // finite, as it meets a zero below
    const float inner = factor * x * (1.0F + 0.044715F * square);
    const float sigmoid = reciprocal(1.0F + exp2_approximate(-log2_e * inner));
    value = x * sigmoid;
    slope = sigmoid + value * (1.0F - sigmoid) * factor * (1.0F + 3.0F * 0.044715F * square);
  } else {
    // The normal distribution's tail by Abramowitz and Stegun 7.1.26 (absolute error below 1e-7); its power
    // of e also is the density that the derivative needs.
    const float z = (x < 0.0F ? -x : x) * 0.7071067811865476F;
    const float t = reciprocal(1.0F + 0.3275911F * z);
    const float power = exp2_approximate(-log2_e * z * z);
    const float tail =
        0.5F * power * t *
        (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    const float distribution = x < 0.0F ? tail : 1.0F - tail;
    value = x * distribution;
    slope = distribution + x * 0.3989422804014327F * power;
  }
}

template <class T, int Width>
struct chunk {
  quad packed;
  __device__ __forceinline__ void load(const T* from) { packed = load_streaming(from); }
  __device__ __forceinline__ void get(float (&values)[Width]) const { unpack<T>(packed, values); }
  static __device__ __forceinline__ void put(T* to, const float (&values)[Width]) {
    store_streaming(to, pack<T>(values));
  }
};
template <class T>
struct chunk<T, 1> {
  T element;
  __device__ __forceinline__ void load(const T* from) { element = *from; }
  __device__ __forceinline__ void get(float (&values)[1]) const { values[0] = to_float(element); }
  static __device__ __forceinline__ void put(T* to, const float (&values)[1]) { from_float(values[0], *to); }
};

/// Where a vector lies: with Dense rows the tensors are one long row, else the index is divided.
template <int Width, bool Dense>
struct gated_index {
  i64 row;
  i64 column;
  __device__ __forceinline__ gated_index(i64 index, i64 vectors_in_row) {
    if constexpr (Dense) {
      row = 0;
      column = index * Width;
    } else if (index <= 0xFFFFFFFFLL) {
      const u32 quotient = static_cast<u32>(index) / static_cast<u32>(vectors_in_row);
      row = quotient;
      column =
          static_cast<i64>(static_cast<u32>(index) - quotient * static_cast<u32>(vectors_in_row)) * Width;
    } else {
      row = index / vectors_in_row;
      column = (index - row * vectors_in_row) * Width;
    }
  }
};

template <class T, gate Function, int Width, int Threads, int Vectors, bool Dense>
__device__ __forceinline__ void gated_forward(const T* gate_in, const T* up_in, T* out, i64 rows, i64 columns,
                                              i64 gate_stride, i64 up_stride, i64 out_stride) {
  begin_kernel();
  const i64 vectors_in_row = columns / Width;
  const i64 total = rows * vectors_in_row;
  const i64 first = static_cast<i64>(block_index()) * (Threads * Vectors) + thread_index();
  if (up_in == nullptr) {
    up_in = gate_in + columns;
    up_stride = gate_stride;
  }
  chunk<T, Width> gates[Vectors];
  chunk<T, Width> ups[Vectors];
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    if (index < total) {
      const gated_index<Width, Dense> at{index, vectors_in_row};
      gates[j].load(gate_in + at.row * gate_stride + at.column);
      ups[j].load(up_in + at.row * up_stride + at.column);
    }
  }
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    if (index < total) {
      const gated_index<Width, Dense> at{index, vectors_in_row};
      float x[Width];
      float u[Width];
      gates[j].get(x);
      ups[j].get(u);
#pragma unroll
      for (int e = 0; e < Width; ++e) {
        float value;
        float slope;
        activate<Function>(x[e], value, slope);
        u[e] *= value;
      }
      chunk<T, Width>::put(out + at.row * out_stride + at.column, u);
    }
  }
}

template <class T, gate Function, int Width, int Threads, int Vectors, bool Dense>
__device__ __forceinline__ void gated_backward(const T* grad_out, const T* gate_in, const T* up_in,
                                               T* grad_gate, T* grad_up, i64 rows, i64 columns,
                                               i64 grad_out_stride, i64 gate_stride, i64 up_stride,
                                               i64 grad_gate_stride, i64 grad_up_stride) {
  begin_kernel();
  const i64 vectors_in_row = columns / Width;
  const i64 total = rows * vectors_in_row;
  const i64 first = static_cast<i64>(block_index()) * (Threads * Vectors) + thread_index();
  if (up_in == nullptr) {
    up_in = gate_in + columns;
    up_stride = gate_stride;
    grad_up = grad_gate + columns;
    grad_up_stride = grad_gate_stride;
  }
  chunk<T, Width> gradients[Vectors];
  chunk<T, Width> gates[Vectors];
  chunk<T, Width> ups[Vectors];
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    if (index < total) {
      const gated_index<Width, Dense> at{index, vectors_in_row};
      gradients[j].load(grad_out + at.row * grad_out_stride + at.column);
      gates[j].load(gate_in + at.row * gate_stride + at.column);
      ups[j].load(up_in + at.row * up_stride + at.column);
    }
  }
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const i64 index = first + j * Threads;
    if (index < total) {
      const gated_index<Width, Dense> at{index, vectors_in_row};
      float d[Width];
      float x[Width];
      float u[Width];
      gradients[j].get(d);
      gates[j].get(x);
      ups[j].get(u);
#pragma unroll
      for (int e = 0; e < Width; ++e) {
        float value;
        float slope;
        activate<Function>(x[e], value, slope);
        x[e] = d[e] * u[e] * slope;
        u[e] = d[e] * value;
      }
      chunk<T, Width>::put(grad_gate + at.row * grad_gate_stride + at.column, x);
      chunk<T, Width>::put(grad_up + at.row * grad_up_stride + at.column, u);
    }
  }
}

}  // namespace sy

#define SY_GATED(name, T, function, width, threads, vectors, dense)                       \
  extern "C" SY_KERNEL(threads, 1)                                                        \
      name(const sy::T* gate, const sy::T* up, sy::T* out, sy::i64 rows, sy::i64 columns, \
           sy::i64 gate_stride, sy::i64 up_stride, sy::i64 out_stride) {                  \
    sy::gated_forward<sy::T, sy::gate::function, width, threads, vectors, dense>(         \
        gate, up, out, rows, columns, gate_stride, up_stride, out_stride);                \
  }

#define SY_GATED_BACKWARD(name, T, function, width, threads, vectors, dense)                               \
  extern "C" SY_KERNEL(threads, 1)                                                                         \
      name(const sy::T* grad_out, const sy::T* gate, const sy::T* up, sy::T* grad_gate, sy::T* grad_up,    \
           sy::i64 rows, sy::i64 columns, sy::i64 grad_out_stride, sy::i64 gate_stride, sy::i64 up_stride, \
           sy::i64 grad_gate_stride, sy::i64 grad_up_stride) {                                             \
    sy::gated_backward<sy::T, sy::gate::function, width, threads, vectors, dense>(                         \
        grad_out, gate, up, grad_gate, grad_up, rows, columns, grad_out_stride, gate_stride, up_stride,    \
        grad_gate_stride, grad_up_stride);                                                                 \
  }
