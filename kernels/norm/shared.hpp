// SPDX-License-Identifier: MIT
// What all kernels of a norm share: the weights as threads hold them, and means and variances of rows.
#pragma once

#include "../gpu/row.hpp"

namespace sy {

/// What a forward kernel computes; operators/layer_norm.hpp has the meaning. Strides are between rows, in
/// elements.
template <class T, class G>
struct norm_call {
  const T* x;
  const T* residual;
  const G* gamma;
  const G* beta;
  T* out;
  T* residual_out;
  float* mean;
  float* rstd;
  i64 rows;
  i64 columns;
  i64 x_stride;
  i64 residual_stride;
  i64 out_stride;
  i64 residual_out_stride;
  float epsilon;
  float gamma_offset;
};

/// What a backward kernel computes; operators/layer_norm_backward.hpp has the meaning of most.
template <class T, class G>
struct norm_backward_call {
  const T* grad_out;
  const T* h;
  const G* gamma;
  const float* mean;
  const float* rstd;
  const T* grad_residual;
  T* grad_x;
  float* partial;  ///< sums of the weights' gradients
  i64 rows;
  i64 columns;
  i64 grad_out_stride;
  i64 h_stride;
  i64 grad_residual_stride;
  i64 grad_x_stride;
  float gamma_offset;
};

/// The weights that belong to 16 bytes of elements of type T.
template <class T, class G>
struct weight_vector {
  static constexpr int width = width_of<T>;
  static constexpr int quads = width * static_cast<int>(sizeof(G)) / 16;
  quad packed[quads];

  /// Null weights are `absent`.
  __device__ __forceinline__ void load(const G* weights, int vector, float absent) {
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      if (weights != nullptr) {
        packed[q] = load_quad(weights + static_cast<i64>(vector) * width + q * width_of<G>);
      } else {
        float values[width_of<G>];
#pragma unroll
        for (int e = 0; e < width_of<G>; ++e) values[e] = absent;
        packed[q] = pack<G>(values);
      }
    }
  }

  __device__ __forceinline__ void get(float (&values)[width]) const {
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      float part[width_of<G>];
      unpack<G>(packed[q], part);
#pragma unroll
      for (int e = 0; e < width_of<G>; ++e) values[q * width_of<G> + e] = part[e];
    }
  }
};

/// How a thread holds its weights from row to row.
enum class weights_held {
  nowhere,  ///< loaded again for each row
  packed,   ///< in registers, as they are stored
  floats,   ///< in registers, ready for use
};

/// How it holds those of `Tensors` tensors beside `Others` registers. Floats are worth their room only where
/// a thread has several rows.
template <class G, class Shape, int Tensors, int Others>
inline constexpr weights_held weights_fit =
    Shape::stages > 0 && Tensors* Shape::elements + Others <= Shape::registers ? weights_held::floats
    : Tensors* Shape::elements* static_cast<int>(sizeof(G)) / 4 + Others <= Shape::registers
        ? weights_held::packed
        : weights_held::nowhere;

/// A thread's weights, each with `offset` added if `Offset`; null ones are `absent`, with nothing added.
template <class T, class G, int Vectors, weights_held Held, bool Offset>
struct thread_weights {
  static constexpr int width = width_of<T>;

  const G* weights;
  float absent;
  float offset;
  weight_vector<T, G> packed[Held == weights_held::packed ? Vectors : 1];
  float floats[Held == weights_held::floats ? Vectors * width : 1];

  template <class Place>
  __device__ __forceinline__ thread_weights(const G* from, float value, float added, const Place& place,
                                            int count)
      : weights{from}, absent{value}, offset{from == nullptr ? 0.0F : added} {
    if constexpr (Held != weights_held::nowhere) {
#pragma unroll
      for (int j = 0; j < Vectors; ++j) {
        const int v = place.template vector<Vectors>(j);
        weight_vector<T, G> loaded;
        loaded.load(place.inside(v, count) ? weights : nullptr, v, absent);
        if constexpr (Held == weights_held::packed) {
          packed[j] = loaded;
        } else {
          float values[width];
          loaded.get(values);
#pragma unroll
          for (int e = 0; e < width; ++e) floats[j * width + e] = Offset ? values[e] + offset : values[e];
        }
      }
    }
  }

  /// In a loop over rows: keeps the compiler from unpacking the weights before it, into twice the registers.
  __device__ __forceinline__ void stay_packed() {
    if constexpr (Held == weights_held::packed) {
#pragma unroll
      for (int j = 0; j < Vectors; ++j) {
#pragma unroll
        for (int q = 0; q < weight_vector<T, G>::quads; ++q) hide_origin(packed[j].packed[q]);
      }
    }
  }

  __device__ __forceinline__ void get(int j, int vector, float (&values)[width]) const {
    if constexpr (Held == weights_held::floats) {
#pragma unroll
      for (int e = 0; e < width; ++e) values[e] = floats[j * width + e];
    } else {
      weight_vector<T, G> loaded = packed[Held == weights_held::packed ? j : 0];
      if constexpr (Held == weights_held::nowhere) loaded.load(weights, vector, absent);
      loaded.get(values);
      if constexpr (Offset) {
#pragma unroll
        for (int e = 0; e < width; ++e) values[e] += offset;
      }
    }
  }
};

/// What a warp sums around, so that it needs one pass for mean and variance: a mean of four of its elements.
/// The square of its distance from the warp's mean is at most a quarter of their number times their variance,
/// which costs f32 two or three digits of seven at the very worst and commonly none.
template <class T>
__device__ __forceinline__ float leading_mean(const quad& packed) {
  float value[width_of<T>];
  unpack<T>(packed, value);
  return 0.25F * ((value[0] + value[1]) + (value[2] + value[3]));
}

/// Elements that the lanes of one warp hold of a row of `count` vectors.
template <class Shape, int Vectors, int Width>
__device__ __forceinline__ float warp_elements(int rank, int warp, int count) {
  if constexpr (Shape::full) return static_cast<float>(Vectors * Shape::lanes * Width);
  int held = 0;
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const int left = count - (rank * Shape::threads * Vectors + j * Shape::threads + warp * Shape::lanes);
    held += left < 0 ? 0 : (left > Shape::lanes ? Shape::lanes : left);
  }
  return static_cast<float>(held * Width);
}

/// Means and sums of squared distances from them, of a warp's elements and merged over the warps of a row.
template <bool Centred, class Shape, int Vectors, int Width>
struct row_moments {
  static constexpr int merged = (Shape::partials + Shape::merge_lanes - 1) / Shape::merge_lanes;
  float own_share = 0.0F;  ///< 1 over the elements of this warp
  float elements[merged];  ///< of the warps whose sums this lane merges

  __device__ __forceinline__ row_moments(const row_place<Shape>& place, int count) {
    if constexpr (Centred) {
      const float held = warp_elements<Shape, Vectors, Width>(place.rank, place.warp_in_row, count);
      own_share = held > 0.0F ? 1.0F / held : 0.0F;
#pragma unroll
      for (int m = 0; m < merged; ++m) {
        const int partial = m * Shape::merge_lanes + place.lane_in_row % Shape::merge_lanes;
        elements[m] = partial < Shape::partials ? warp_elements<Shape, Vectors, Width>(
                                                      partial / Shape::warps, partial % Shape::warps, count)
                                                : 0.0F;
      }
    }
  }

  /// From a thread's sums of differences from the pivot and of their squares to the warp's mean and its sum
  /// of squared distances from the mean.
  __device__ __forceinline__ void close_warp(float pivot, float& sum, float& square, float& mean) const {
    sum = lane_sum<Shape::lanes>(sum);
    const float offset = sum * own_share;
    mean = pivot + offset;
    square = maximum(lane_sum<Shape::lanes>(square) - sum * offset, 0.0F);
  }

  /// The row's, of the warps' at partials[2 p] and [2 p + 1]. They are merged around the common mean: Chan,
  /// Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
  __device__ __forceinline__ void merge(const row_place<Shape>& place, const float* partials,
                                        float inverse_columns, float& mean, float& square) const {
    mean = 0.0F;
    square = 0.0F;
    const int lane = place.lane_in_row % Shape::merge_lanes;
    float means[merged];
#pragma unroll
    for (int m = 0; m < merged; ++m) {
      const int partial = m * Shape::merge_lanes + lane;
      means[m] = partial < Shape::partials ? partials[2 * partial] : 0.0F;
      mean += elements[m] * means[m];
    }
    mean = lane_sum<Shape::merge_lanes>(mean) * inverse_columns;
#pragma unroll
    for (int m = 0; m < merged; ++m) {
      const int partial = m * Shape::merge_lanes + lane;
      if (partial < Shape::partials) {
        square += partials[2 * partial + 1] + elements[m] * (means[m] - mean) * (means[m] - mean);
      }
    }
    square = lane_sum<Shape::merge_lanes>(square);
  }
};

}  // namespace sy

// The parameters of kernels, in the order of the search spaces, and the call that they make up. `index` is
// the type of the number of columns.

#define SY_RMS_NORM_PARAMETERS(T, G, index)                                                                \
  const sy::T *x, const sy::T *residual, const sy::G *gamma, sy::T *out, sy::T *residual_out, float *rstd, \
      sy::i64 rows, sy::index columns, sy::i64 x_stride, sy::i64 residual_stride, sy::i64 out_stride,      \
      sy::i64 residual_out_stride, float epsilon, float gamma_offset

#define SY_LAYER_NORM_PARAMETERS(T, G, index)                                                           \
  const sy::T *x, const sy::T *residual, const sy::G *gamma, const sy::G *beta, sy::T *out,             \
      sy::T *residual_out, float *mean, float *rstd, sy::i64 rows, sy::index columns, sy::i64 x_stride, \
      sy::i64 residual_stride, sy::i64 out_stride, sy::i64 residual_out_stride, float epsilon,          \
      float gamma_offset

#define SY_NORM_CALL(T, G, beta_or_null, mean_or_null)                                                  \
  sy::norm_call<sy::T, sy::G> {                                                                         \
    .x = x, .residual = residual, .gamma = gamma, .beta = beta_or_null, .out = out,                     \
    .residual_out = residual_out, .mean = mean_or_null, .rstd = rstd, .rows = rows, .columns = columns, \
    .x_stride = x_stride, .residual_stride = residual_stride, .out_stride = out_stride,                 \
    .residual_out_stride = residual_out_stride, .epsilon = epsilon, .gamma_offset = gamma_offset        \
  }

#define SY_NORM_BACKWARD_CALL(T, G, mean_or_null, partial_or_null)                              \
  sy::norm_backward_call<sy::T, sy::G> {                                                        \
    .grad_out = grad_out, .h = h, .gamma = gamma, .mean = mean_or_null, .rstd = rstd,           \
    .grad_residual = grad_residual, .grad_x = grad_x, .partial = partial_or_null, .rows = rows, \
    .columns = columns, .grad_out_stride = grad_out_stride, .h_stride = h_stride,               \
    .grad_residual_stride = grad_residual_stride, .grad_x_stride = grad_x_stride,               \
    .gamma_offset = gamma_offset                                                                \
  }
