// SPDX-License-Identifier: MIT
// Row kernels in a software pipeline, for long rows with one block on a multiprocessor: a block reduces its
// share of a row and sends the result to the other blocks of its cluster before it writes the row that it
// reduced an iteration ago. The exchange, a microsecond during which a block alone on a multiprocessor would
// have nothing to do, thereby has a whole iteration, and the copy of a row into shared memory another.
//
// Shapes are those of row.hpp with one row a block, at least two stages, and rows held in their slots.
#pragma once

#include "row.hpp"

namespace sy {

/// Exchanges values that the warps of a row hold, with an iteration between give() and take(). Needs a launch
/// in clusters of two blocks or more: st.async is an illegal instruction (seen on an H200) where a block has
/// no cluster.
template <class Shape, int Values>
struct pipelined_exchange {
  /// A warp gives its values of iteration t + 4 when it has taken iteration t + 2, to which every warp has
  /// given after it took iteration t: so four buffers suffice, and three would not.
  static constexpr int buffers = 4;

  static_assert(Shape::cluster > 1);

  /// Of a size that leaves the rows behind it on a line, as in row_exchange.
  struct alignas(128) storage {
    float values[buffers][Shape::partials * Values];
    u64 mbarriers[buffers];
  };

  storage& memory;

  __device__ __forceinline__ explicit pipelined_exchange(storage& shared) : memory{shared} {
    if (thread_index() == 0) {
#pragma unroll
      for (int i = 0; i < buffers; ++i) init_mbarrier(&memory.mbarriers[i]);
    }
    cluster_barrier();  // a block's memory is written only once it runs
  }

  __device__ __forceinline__ void give(const row_place<Shape>& place, int iteration,
                                       const float (&values)[Values]) {
    const int lane = place.lane_in_row % Shape::lanes;
    const int at = iteration % buffers;
    u64* mbarrier = &memory.mbarriers[at];
    if (thread_index() == 0)
      expect_bytes(mbarrier, Shape::partials * Values * static_cast<int>(sizeof(float)));
    if (lane < Shape::cluster)
      send(&memory.values[at][(place.rank * Shape::warps + place.warp_in_row) * Values], mbarrier, lane,
           values);
  }

  /// The values of an iteration's row: partial p's are at [p * Values].
  [[nodiscard]] __device__ __forceinline__ const float* take(int iteration) const {
    const int at = iteration % buffers;
    wait_mbarrier(&memory.mbarriers[at], iteration / buffers % 2);
    return memory.values[at];
  }
};

/// A block's rows of `Inputs` tensors of one element type on their way through shared memory: copied into a
/// slot, reduced when they have come, written an iteration later. Name the inputs, then start(). An iteration
/// is to wait() for the row that is coming() and read it, to read the row that is leaving() and refill() its
/// slot (there is none in the first iteration), and to advance().
template <class T, class Shape, int Inputs>
class row_pipeline {
 public:
  static constexpr int width = width_of<T>;
  static constexpr int vectors = Shape::elements / width;
  static_assert(Shape::in_shared && Shape::rows == 1 && Shape::stages >= 2);

  __device__ __forceinline__ row_pipeline(quad* shared, const row_place<Shape>& place, i32 rows, int count)
      : place_{place},
        slots_{shared + thread_index()},
        rows_{rows},
        count_{count},
        step_{static_cast<i32>(place.group_step)},
        filled_{static_cast<i32>(place.first_group)} {}

  __device__ __forceinline__ void input(int index, const T* data, i64 stride) {
    from_[index] = data;
    stride_[index] = stride;
  }

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int s = 0; s < Shape::stages; ++s) {
      if (filled_ < rows_) {
#pragma unroll
        for (int j = 0; j < vectors; ++j) copy(s, j);
      }
      commit_copies();
      filled_ += step_;
    }
  }

  /// Whether this thread has a vector j of a row.
  [[nodiscard]] __device__ __forceinline__ bool has(int j) const {
    return place_.inside(place_.template vector<vectors>(j), count_);
  }

  /// Waits for the row to reduce and leaves later ones under way, of which there are two less than slots: the
  /// slot of the row before it is refilled later in the iteration. The first call waits for two rows.
  __device__ __forceinline__ void wait() const {
    wait_for_copies<Shape::stages - 2>();
  }
  [[nodiscard]] __device__ __forceinline__ quad coming(int input, int j) const {
    return *slot(coming_, input, j);
  }
  [[nodiscard]] __device__ __forceinline__ quad leaving(int input, int j) const {
    return *slot(leaving(), input, j);
  }
  /// Starts the copy of a later row over this thread's vector j of the row that leaves; refilled() must
  /// follow the last.
  __device__ __forceinline__ void refill(int j) {
    if (filled_ < rows_) copy(leaving(), j);
  }
  __device__ __forceinline__ void refilled() {
    commit_copies();
    filled_ += step_;
  }
  /// The same for the whole row.
  __device__ __forceinline__ void refill() {
    if (filled_ < rows_) {
#pragma unroll
      for (int j = 0; j < vectors; ++j) copy(leaving(), j);
    }
    refilled();
  }

  __device__ __forceinline__ void advance() {
    coming_ = coming_ + 1 == Shape::stages ? 0 : coming_ + 1;
  }

 private:
  [[nodiscard]] __device__ __forceinline__ quad* slot(int stage, int input, int j) const {
    return slots_ + ((stage * Inputs + input) * vectors + j) * Shape::block_threads;
  }
  [[nodiscard]] __device__ __forceinline__ int leaving() const {
    return coming_ == 0 ? Shape::stages - 1 : coming_ - 1;
  }
  __device__ __forceinline__ void copy(int stage, int j) {
    if (!has(j)) return;
    const i64 at = static_cast<i64>(place_.template vector<vectors>(j)) * width;
#pragma unroll
    for (int input = 0; input < Inputs; ++input)
      copy_async(slot(stage, input, j), from_[input] + filled_ * stride_[input] + at);
  }

  const row_place<Shape>& place_;
  quad* slots_;  ///< of this thread
  i32 rows_;
  int count_;
  i32 step_;        ///< between rows of the block
  i32 filled_;      ///< the row to copy next
  int coming_ = 0;  ///< slot of the row to reduce
  const T* from_[Inputs];
  i64 stride_[Inputs];
};

}  // namespace sy
