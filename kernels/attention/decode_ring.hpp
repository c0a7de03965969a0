// SPDX-License-Identifier: MIT
// What a warp, or a team of warps, copies: tiles of keys and values into a ring in shared memory.
#pragma once

#include <type_traits>

#include "../gpu/ptx.hpp"
#include "decode_call.hpp"

namespace sy {

using ptx::commit_copies;
using ptx::copy_async;
using ptx::floor_log2;
using ptx::shared_address;

/// Element: of queries and output. Narrow: keys and values are e4m3, else Element. Dim: head dims, rounded
/// up. Tiles: of eight query rows, of a warp. Team: warps that share a ring, each with rows of its own. Lean:
/// fewer instructions a tile, for several query rows, where they bound rather than the memory.
template <class ElementType, bool NarrowKeys, int HeadDim, int RowTiles, int WarpCount, int KeyCount,
          int StageCount, bool PagedKeys, int TeamSize = 1, bool LeanCode = false>
struct decode_shape {
  using Element = ElementType;
  using Number = typename std::conditional<NarrowKeys, __half, Element>::type;  ///< of the products
  static constexpr bool Narrow = NarrowKeys;
  static constexpr bool Paged = PagedKeys;
  static constexpr int Dim = HeadDim;
  static constexpr int Tiles = RowTiles;
  static constexpr int Warps = WarpCount;
  static constexpr int Keys = KeyCount;
  static constexpr int Stages = StageCount;
  static constexpr int Team = TeamSize;
  static constexpr bool Lean = LeanCode;

  static constexpr int teams = Warps / Team;
  static constexpr int element_bytes = Narrow ? 1 : 2;
  static constexpr int row_bytes = Dim * element_bytes;
  static constexpr int chunks = row_bytes / 16;  ///< of 16 bytes in a row
  static constexpr int rows_a_copy = 32 / chunks;
  static constexpr int warp_keys = Keys / Team;  ///< that a warp copies, of a tile
  static constexpr int copies = warp_keys / rows_a_copy;
  static constexpr int tile_bytes = Keys * row_bytes;
  static constexpr int steps = Dim / 16;
  static constexpr int warp_rows = 8 * Tiles;
  static constexpr int rows = warp_rows * Team;
  static constexpr int ring_bytes = 2 * teams * Stages * tile_bytes;
  static_assert(chunks >= 4 && chunks <= 32 && Keys % 16 == 0 && Keys <= 32);
  static_assert(Warps % Team == 0 && copies * rows_a_copy * Team == Keys);

  /// Where chunk `chunk` of row `row` lies in a tile: moved about so that eight rows' chunks lie in all
  /// banks.
  static __device__ __forceinline__ u32 place(int row, int chunk) {
    const int turn = chunks >= 8 ? row & 7 : row >> 1 & 3;
    return static_cast<u32>(row * row_bytes + (chunk ^ turn) * 16);
  }
};

/// The warps of a team meet; without one, the threads of a warp.
template <class Shape>
__device__ __forceinline__ void meet_team(int team) {
  if constexpr (Shape::Team == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(32 * Shape::Team) : "memory");
  }
}

/// A team's ring of tiles of keys and values, of which each warp copies a part.
template <class Shape>
struct tile_ring {
  const decode_call& call;
  u32 base;
  int lane;
  int row;    ///< of the warp's first copy of a tile, this thread's
  int chunk;  ///< of the row's, this thread's
  bool k_there, v_there;
  u64 policy;
  int page_shift;

  __device__ __forceinline__ tile_ring(const decode_call& of, const char* memory, int team, int member,
                                       int thread)
      : call{of},
        base{shared_address(memory) + static_cast<u32>(team * Shape::Stages * 2 * Shape::tile_bytes)},
        lane{thread},
        row{member * Shape::warp_keys + thread / Shape::chunks},
        chunk{thread % Shape::chunks},
        k_there{chunk * 16 / Shape::element_bytes < of.head_dim},
        v_there{chunk * 16 / Shape::element_bytes < of.head_dim_v},
        policy{ptx::evict_first_policy()},
        page_shift{Shape::Paged ? floor_log2(of.page_size) : 0} {}

  [[nodiscard]] __device__ __forceinline__ u32 k_tile(int stage) const {
    return base + static_cast<u32>(stage * 2 * Shape::tile_bytes);
  }
  [[nodiscard]] __device__ __forceinline__ u32 v_tile(int stage) const {
    return k_tile(stage) + Shape::tile_bytes;
  }

  /// The page of key `first + lane` of a tile.
  [[nodiscard]] __device__ __forceinline__ int page(int b, int first, int end) const {
    const int key = first + lane;
    return lane < Shape::Keys && key < end
               ? call.block_table[b * call.block_table_stride + (key >> page_shift)]
               : 0;
  }

  /// Copies the rows of keys [first, first + Keys), zeros from `end` on. `page` is what page() gave.
  __device__ __forceinline__ void copy_keys(int stage, int b, int head_kv, int first, int end,
                                            int page) const {
    copy(k_tile(stage), call.k, call.k_stride_batch, call.k_stride_head, call.k_stride_token, k_there, b,
         head_kv, first, end, page);
  }
  __device__ __forceinline__ void copy_values(int stage, int b, int head_kv, int first, int end,
                                              int page) const {
    copy(v_tile(stage), call.v, call.v_stride_batch, call.v_stride_head, call.v_stride_token, v_there, b,
         head_kv, first, end, page);
  }

 private:
  __device__ __forceinline__ void copy(u32 to, const void* tensor, i64 stride_batch, i64 stride_head,
                                       i64 stride_token, bool inside, int b, int head_kv, int first, int end,
                                       int page) const {
    constexpr int bytes = Shape::element_bytes;
    if constexpr (Shape::Lean) {
      if (first + Shape::Keys <= end) {
        copy_whole(to, tensor, stride_batch, stride_head, stride_token, inside, b, head_kv, first, page);
        return;
      }
    }
    const int key = first + row;
    const char* from = static_cast<const char*>(tensor) + head_kv * stride_head * bytes + chunk * 16;
    if constexpr (!Shape::Paged) from += (b * stride_batch + key * stride_token) * bytes;
#pragma unroll
    for (int i = 0; i < Shape::copies; ++i) {
      const char* at = from + i * (Shape::rows_a_copy * stride_token * bytes);
      if constexpr (Shape::Paged) {
        const i64 page_of_row = __shfl_sync(~0U, page, i * Shape::rows_a_copy + row);
        const i64 slot = (key + i * Shape::rows_a_copy) & (call.page_size - 1);
        at = from + (page_of_row * stride_batch + slot * stride_token) * bytes;
      }
      const bool there = inside && key + i * Shape::rows_a_copy < end;
      copy_async(to + Shape::place(i * Shape::rows_a_copy + row, chunk),
                 there ? at : static_cast<const char*>(tensor), there, policy);
    }
  }

  /// Of a tile whose keys are all there. A lane computes where one key lies, for all that copy from it.
  __device__ __forceinline__ void copy_whole(u32 to, const void* tensor, i64 stride_batch, i64 stride_head,
                                             i64 stride_token, bool inside, int b, int head_kv, int first,
                                             int page) const {
    constexpr int bytes = Shape::element_bytes;
    const char* from = static_cast<const char*>(tensor) + head_kv * stride_head * bytes +
                       (inside ? chunk * 16 : 0);  // what is not inside is zeros, from an address that exists
    i64 offset = 0;
    if constexpr (Shape::Paged) {
      offset = (page * stride_batch + ((first + lane) & (call.page_size - 1)) * stride_token) * bytes;
    } else {
      from += (b * stride_batch + (first + row) * stride_token) * bytes;
    }
#pragma unroll
    for (int i = 0; i < Shape::copies; ++i) {
      const char* const at = from + (Shape::Paged ? __shfl_sync(~0U, offset, i * Shape::rows_a_copy + row)
                                                  : i * (Shape::rows_a_copy * stride_token * bytes));
      copy_async(to + Shape::place(i * Shape::rows_a_copy + row, chunk), at, inside, policy);
    }
  }
};

}  // namespace sy
