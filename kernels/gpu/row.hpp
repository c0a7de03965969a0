// SPDX-License-Identifier: MIT
// Row kernels: each row of a matrix is read once, reduced, and written, by `Threads` threads of a block (with
// `Cluster` > 1, of each block of a cluster). A thread owns `Elements` elements of a row, in 16-byte vectors
// that lie `Threads` vectors apart.
//
// Blocks walk over the rows, `Rows` at a time. Rows to come are under way into a ring of `Stages` slots in
// shared memory; a thread reads only slots that it has filled itself, so the ring needs no barrier. A row
// stays in its slot until it is written (`InShared`), or moves to registers and frees the slot at once. With
// Stages 0 rows are loaded straight into registers. `Blocks` blocks are meant to share a multiprocessor. With
// `Full` every thread's share of a row is full, and nothing is compared with its end.
#pragma once

#include "portable.hpp"

namespace sy {

template <int Threads, int Elements, int Rows, int Stages, int Cluster, int Blocks, bool InShared, bool Full>
struct row_shape {
  static constexpr int threads = Threads;    ///< of a row in one block
  static constexpr int elements = Elements;  ///< of a row and thread
  static constexpr int rows = Rows;          ///< of a block
  static constexpr int stages = Stages;
  static constexpr int cluster = Cluster;
  static constexpr int block_threads = Threads * Rows;
  static constexpr bool in_shared = InShared && Stages > 0;
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

/// Exchanges values that the warps of a row hold: after give(), every thread finds the values of partial p at
/// mine[p * Values].
template <class Shape, int Values>
struct row_exchange {
  static constexpr bool clustered = Shape::cluster > 1;

  /// In shared memory, of a size that leaves the rows behind it on a line: a warp's 16-byte accesses that
  /// straddle lines cost up to a tenth of a kernel's rate. Halves are used in turn: whoever writes to one has
  /// seen that all others have given to the other half since, and so are done with reading the first.
  struct alignas(128) storage {
    float values[2][Shape::rows][Shape::partials * Values];
    u64 mbarriers[clustered ? 2 : 1];
  };

  storage& memory;
  int half = 0;
  int phase = 0;
  const float* mine = nullptr;

  __device__ __forceinline__ explicit row_exchange(storage& shared) : memory{shared} {
    if constexpr (clustered) {
      if (thread_index() == 0) {
        init_mbarrier(&memory.mbarriers[0]);
        init_mbarrier(&memory.mbarriers[1]);
      }
      cluster_barrier();  // a block's memory is written only once it runs
    }
  }

  __device__ __forceinline__ void give(const row_place<Shape>& place, const float (&values)[Values]) {
    float* row = memory.values[half][place.row_in_block];
    const int lane = place.lane_in_row % Shape::lanes;
    float* slot = row + (place.rank * Shape::warps + place.warp_in_row) * Values;
    if constexpr (clustered) {
      u64* mbarrier = &memory.mbarriers[half];
      if (thread_index() == 0)
        expect_bytes(mbarrier, Shape::partials * Values * static_cast<int>(sizeof(float)));
      if (lane < Shape::cluster) send(slot, mbarrier, lane, values);
      wait_mbarrier(mbarrier, phase);
      phase ^= half;
    } else {
      if (lane == 0) {
#pragma unroll
        for (int i = 0; i < Values; ++i) slot[i] = values[i];
      }
      block_barrier();
    }
    mine = row;
    half ^= 1;
  }
};

/// Sums over the partials of a row, of which partial p's are at partials[p * Values].
template <class Shape, int Values>
__device__ __forceinline__ void merge_partials(const row_place<Shape>& place, const float* partials,
                                               float (&values)[Values]) {
  const int lane = place.lane_in_row % Shape::merge_lanes;
#pragma unroll
  for (int i = 0; i < Values; ++i) values[i] = 0.0F;
#pragma unroll
  for (int partial = 0; partial < Shape::partials; partial += Shape::merge_lanes) {
    if (partial + lane < Shape::partials) {
#pragma unroll
      for (int i = 0; i < Values; ++i) values[i] += partials[(partial + lane) * Values + i];
    }
  }
#pragma unroll
  for (int i = 0; i < Values; ++i) values[i] = lane_sum<Shape::merge_lanes>(values[i]);
}

/// Sums over a row; every thread gets them.
template <class Shape, int Values>
__device__ __forceinline__ void row_sum(row_exchange<Shape, Values>& exchange, const row_place<Shape>& place,
                                        float (&values)[Values]) {
#pragma unroll
  for (int i = 0; i < Values; ++i) values[i] = lane_sum<Shape::lanes>(values[i]);
  if constexpr (Shape::partials > 1) {
    exchange.give(place, values);
    merge_partials<Shape>(place, exchange.mine, values);
  }
}

/// Walks over a block's rows of `Inputs` tensors of one element type and holds the row at hand, in registers
/// or in its slot of the ring. Name the inputs, then start(), then for each row take() it, get() what it
/// holds, and refill() its slot.
template <class T, class Shape, int Inputs>
class row_reader {
 public:
  static constexpr int width = width_of<T>;
  static constexpr int vectors = Shape::elements / width;
  static constexpr bool ringed = Shape::stages > 0;

  __device__ __forceinline__ row_reader(quad* shared, const row_place<Shape>& place, i64 rows, int count)
      : place_{place},
        slots_{shared + thread_index()},
        rows_{rows},
        count_{count},
        group_{place.first_group} {}

  __device__ __forceinline__ void input(int index, const T* data, i64 stride) {
    from_[index] = data;
    stride_[index] = stride;
  }

  __device__ __forceinline__ void start() {
    if constexpr (ringed) {
#pragma unroll
      for (int s = 0; s < Shape::stages; ++s) {
        fill(row_of(group_ + s * place_.group_step));
        advance();
      }
    }
  }

  /// Without a ring there is one iteration: the grid has a block for every one.
  [[nodiscard]] __device__ __forceinline__ bool more() const {
    return ringed ? group_ * Shape::rows < rows_ : !turned_;
  }
  __device__ __forceinline__ void next() {
    group_ += place_.group_step;
    turned_ = true;
  }

  /// The row of this thread in this iteration, and in the next.
  [[nodiscard]] __device__ __forceinline__ i64 row() const {
    return row_of(group_);
  }
  [[nodiscard]] __device__ __forceinline__ i64 next_row() const {
    return row_of(group_ + place_.group_step);
  }

  /// Whether there is a row to take, and this thread has a vector j of it.
  [[nodiscard]] __device__ __forceinline__ bool has(int j) const {
    return exists_ && place_.inside(place_.template vector<vectors>(j), count_);
  }

  [[nodiscard]] __device__ __forceinline__ bool exists() const {
    return exists_;
  }

  /// Waits for the row, and moves it to registers unless it is held in its slot.
  __device__ __forceinline__ void take() {
    exists_ = place_.exists(row(), rows_);
    if constexpr (ringed) wait_for_copies<Shape::stages - 1>();
    if constexpr (!Shape::in_shared) {
#pragma unroll
      for (int input = 0; input < Inputs; ++input) {
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
          if (has(j)) {
            kept_[input][j] = ringed ? *slot(input, j)
                                     : load_streaming(from_[input] + row() * stride_[input] +
                                                      place_.template vector<vectors>(j) * width);
          }
        }
      }
    }
  }

  [[nodiscard]] __device__ __forceinline__ quad get(int input, int j) const {
    if constexpr (Shape::in_shared) {
      return *slot(input, j);
    } else {
      return kept_[input][j];
    }
  }

  /// Puts another value in the place of the first input's.
  __device__ __forceinline__ void put(int j, const quad& value) {
    if constexpr (Shape::in_shared) {
      *slot(0, j) = value;
    } else {
      kept_[0][j] = value;
    }
  }

  /// Starts the copy of a later row into the slot.
  __device__ __forceinline__ void refill() {
    if constexpr (ringed) {
      fill(later_row());
      advance();
    }
  }

  /// The same for this thread's vector j alone; refilled() must follow the last.
  __device__ __forceinline__ void refill(int j) {
    if (later_row() < rows_) fill(later_row(), j);
  }
  __device__ __forceinline__ void refilled() {
    commit_copies();
    advance();
  }

 private:
  static constexpr int stage_quads = Inputs * vectors * Shape::block_threads;

  [[nodiscard]] __device__ __forceinline__ i64 row_of(i64 group) const {
    return group * Shape::rows + place_.row_in_block;
  }
  [[nodiscard]] __device__ __forceinline__ i64 later_row() const {
    return row_of(group_ + Shape::stages * place_.group_step);
  }
  [[nodiscard]] __device__ __forceinline__ quad* slot(int input, int j) const {
    return slots_ + stage_ * stage_quads + (input * vectors + j) * Shape::block_threads;
  }
  __device__ __forceinline__ void advance() {
    stage_ = stage_ + 1 == Shape::stages ? 0 : stage_ + 1;
  }

  __device__ __forceinline__ void fill(i64 row, int j) {
    const int v = place_.template vector<vectors>(j);
    if (!place_.inside(v, count_)) return;
#pragma unroll
    for (int input = 0; input < Inputs; ++input) {
      copy_async(slot(input, j), from_[input] + row * stride_[input] + static_cast<i64>(v) * width);
    }
  }
  __device__ __forceinline__ void fill(i64 row) {
    if (row < rows_) {
#pragma unroll
      for (int j = 0; j < vectors; ++j) fill(row, j);
    }
    commit_copies();
  }

  const row_place<Shape>& place_;
  quad* slots_;  ///< of this thread
  int stage_ = 0;
  i64 rows_;
  int count_;
  i64 group_;
  bool exists_ = false;
  bool turned_ = false;
  const T* from_[Inputs];
  i64 stride_[Inputs];
  quad kept_[Inputs][Shape::in_shared ? 1 : vectors];
};

}  // namespace sy
