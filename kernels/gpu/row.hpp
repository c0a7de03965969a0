// Row kernels: each row of a matrix is read once, reduced, and written, by `Threads` threads of a block (with
// `Cluster` > 1, of each block of a cluster). A thread owns `Elements` elements of a row, in 16-byte vectors
// that lie `Threads` vectors apart.
//
// Blocks walk over the rows, `Rows` at a time. Rows to come are under way into a ring of `Stages` slots in
// shared memory; a thread reads only slots that it has filled itself, so the ring needs no barrier. A row
// stays in its slot until it is written (`Hold`), or moves to registers and frees the slot at once. With
// Stages 0 rows are loaded straight into registers. `Blocks` blocks are meant to share a multiprocessor. With
// `Full` every thread's share of a row is full, and nothing is compared with its end.
#pragma once

#include "portable.hpp"

namespace sy {

template <int Threads, int Elements, int Rows, int Stages, int Cluster, int Blocks, bool Hold, bool Full>
struct row_shape {
  static constexpr int threads = Threads;    ///< of a row in one block
  static constexpr int elements = Elements;  ///< of a row and thread
  static constexpr int rows = Rows;          ///< of a block
  static constexpr int stages = Stages;
  static constexpr int cluster = Cluster;
  static constexpr int block_threads = Threads * Rows;
  static constexpr bool hold = Hold && Stages > 0;
  static constexpr bool full = Full;
  static constexpr int registers = 65536 / (block_threads * Blocks);  ///< that a thread may use
  static constexpr int lanes = Threads < 32 ? Threads : 32;           ///< that reduce by shuffles
  static constexpr int warps = Threads / lanes;                       ///< of a row in one block
  static constexpr int partials = warps * Cluster;                    ///< that meet in shared memory
  static constexpr int merge_lanes = partials <= 1    ? 1
                                     : partials <= 2  ? 2
                                     : partials <= 4  ? 4
                                     : partials <= 8  ? 8
                                     : partials <= 16 ? 16
                                                      : 32;
  static_assert(Rows == 1 || Cluster == 1);
  static_assert(Cluster == 1 || Threads >= 32);
};

/// Sum over the lanes of a row in a warp.
template <int Lanes>
__device__ __forceinline__ float lane_sum(float value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
template <int Lanes>
__device__ __forceinline__ float lane_max(float value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value = maximum(value, shuffle_xor(value, mask));
  return value;
}

/// A thread's place in its row and its block's place in the grid.
template <class Shape>
struct row_place {
  int lane_in_row;  ///< 0 to threads - 1
  int row_in_block;
  int warp_in_row;
  int rank;  ///< in the cluster
  i64 first_group;
  i64 group_step;

  __device__ __forceinline__ row_place() {
    const int thread = thread_index();
    lane_in_row = thread % Shape::threads;
    row_in_block = thread / Shape::threads;
    warp_in_row = lane_in_row / Shape::lanes;
    rank = Shape::cluster > 1 ? cluster_rank() : 0;
    first_group = block_index() / Shape::cluster;
    group_step = block_count() / Shape::cluster;
  }

  /// Whether the row of this thread exists.
  [[nodiscard]] static __device__ __forceinline__ bool exists(i64 row, i64 rows) {
    return Shape::rows == 1 || row < rows;  // with one row a block, the loop over the rows has looked
  }

  /// Whether a vector lies in a row of `count`.
  [[nodiscard]] static __device__ __forceinline__ bool inside(int vector, int count) {
    return Shape::full || vector < count;
  }

  /// Index in the row of this thread's vector j.
  template <int Vectors>
  [[nodiscard]] __device__ __forceinline__ int vector(int j) const {
    return rank * Shape::threads * Vectors + j * Shape::threads + lane_in_row;
  }
};

/// Exchanges values that the warps of a row hold: after give() and a look at take(), every lane l below
/// merge_lanes has the values of partials l, l + merge_lanes, …
template <class Shape, int Values>
struct row_exchange {
  static constexpr int floats = 2 * Shape::rows * Shape::partials * Values;

  float* memory;
  int parity = 0;
  const float* mine = nullptr;

  __device__ __forceinline__ explicit row_exchange(float* shared) : memory{shared} {
    if constexpr (Shape::cluster > 1) cluster_barrier();  // its memory is written only once a block runs
  }

  __device__ __forceinline__ void give(const row_place<Shape>& place, const float (&values)[Values]) {
    float* row = memory + (parity * Shape::rows + place.row_in_block) * Shape::partials * Values;
    const int lane = place.lane_in_row % Shape::lanes;
    float* slot = row + (place.rank * Shape::warps + place.warp_in_row) * Values;
    if constexpr (Shape::cluster > 1) {
      if (lane < Shape::cluster) {
#pragma unroll
        for (int i = 0; i < Values; ++i) store_remote(slot + i, lane, values[i]);
      }
      cluster_barrier();
    } else {
      if (lane == 0) {
#pragma unroll
        for (int i = 0; i < Values; ++i) slot[i] = values[i];
      }
      block_barrier();
    }
    mine = row;
    // The other half is used next: one barrier then lies between a reading and the writing that follows it.
    parity ^= 1;
  }
};

/// Sums over a row; every thread gets them.
template <class Shape, int Values>
__device__ __forceinline__ void row_sum(row_exchange<Shape, Values>& exchange, const row_place<Shape>& place,
                                        float (&values)[Values]) {
#pragma unroll
  for (int i = 0; i < Values; ++i) values[i] = lane_sum<Shape::lanes>(values[i]);
  if constexpr (Shape::partials > 1) {
    exchange.give(place, values);
    const int lane = place.lane_in_row % Shape::merge_lanes;
#pragma unroll
    for (int i = 0; i < Values; ++i) values[i] = 0.0F;
#pragma unroll
    for (int partial = 0; partial < Shape::partials; partial += Shape::merge_lanes) {
      if (partial + lane < Shape::partials) {
#pragma unroll
        for (int i = 0; i < Values; ++i) values[i] += exchange.mine[(partial + lane) * Values + i];
      }
    }
#pragma unroll
    for (int i = 0; i < Values; ++i) values[i] = lane_sum<Shape::merge_lanes>(values[i]);
  }
}

/// The ring of rows to come, for `Inputs` tensors of one element type.
template <class T, class Shape, int Inputs>
struct row_ring {
  static constexpr int width = width_of<T>;
  static constexpr int vectors = Shape::elements / width;
  static constexpr int stage_quads = Inputs * vectors * Shape::block_threads;

  quad* memory;  ///< of this thread
  int stage = 0;

  __device__ __forceinline__ explicit row_ring(quad* shared) : memory{shared + thread_index()} {}

  [[nodiscard]] __device__ __forceinline__ quad* slot(int input, int j) const {
    return memory + stage * stage_quads + (input * vectors + j) * Shape::block_threads;
  }

  __device__ __forceinline__ void advance() { stage = stage + 1 == Shape::stages ? 0 : stage + 1; }

  /// Starts the copy of this thread's vector j of a row into the current stage.
  __device__ __forceinline__ void fill(const row_place<Shape>& place, int input, int j, const T* row,
                                       int count) {
    const int v = place.template vector<vectors>(j);
    if (place.inside(v, count)) copy_async(slot(input, j), row + static_cast<i64>(v) * width);
  }

  /// The same for all of them.
  __device__ __forceinline__ void fill(const row_place<Shape>& place, int input, const T* row, int count) {
#pragma unroll
    for (int j = 0; j < vectors; ++j) fill(place, input, j, row, count);
  }
};

}  // namespace sy
