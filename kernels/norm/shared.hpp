// What all kernels of a norm share: the weights as threads hold them, and the point to sum around.
#pragma once

#include "../gpu/portable.hpp"

namespace sy {

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

}  // namespace sy
