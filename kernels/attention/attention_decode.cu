// SPDX-License-Identifier: MIT
// Attention for a few query tokens against a long cache, for NVIDIA GPUs. Semantics:
// operators/attention_decode.hpp.
//
// All that counts is that keys and values arrive at the speed of the memory. So every warp is a pipeline of
// its own: it copies tiles of `Keys` keys and values into its ring of `Stages` buffers with cp.async, and no
// barrier is in the loop. The products are transposed, S^T = K Q^T and O^T = V^T P^T, so that the query rows
// are the narrow side of an m16n8k16 and the softmax's factors of a row lie in the threads that hold its
// scores and its sums alike; the query heads of a KV head are rows of one tile.
//
//   decode_split        a block, or a cluster of them, for each KV head; the blocks of a cluster combine
//   their
//                       results through distributed shared memory
//   decode_persistent   as many blocks as the device holds, each with the same number of tiles, of whichever
//                       sequences; copies continue from one sequence into the next
//   decode_join         combines the results of sequences that decode_persistent has split
//
// e4m3 keys and values become f16, exactly; queries in bf16 then become f16 after their row has been divided
// by a power of two, so that their products are in f16 too.
//
// The softmax is that of Milakov and Gimelshein (arXiv:1805.02867), the division of the keys that of
// Flash-Decoding (Dao et al., 2023).
#include <cstdint>
#include <type_traits>

#include "../gpu/ptx.hpp"

namespace sy {

using i32 = std::int32_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;

constexpr float log2e = 1.44269504088896340736F;
constexpr float ln2 = 0.69314718055994530942F;

struct decode_call {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;
  const float* k_scale;
  const float* v_scale;
  const float* alibi_slopes;
  const float* sinks;
  const i32* seqused_k;
  const i32* block_table;
  float* partial;        ///< parts of rows of the output, see part_index; [.., head_dim_v]
  float* partial_state;  ///< their largest scores and sums; [.., 2]
  i64 q_stride_batch, q_stride_head, q_stride_token;
  i64 k_stride_batch, k_stride_head, k_stride_token;
  i64 v_stride_batch, v_stride_head, v_stride_token;
  i64 out_stride_batch, out_stride_head, out_stride_token;
  i64 lse_stride_batch, lse_stride_head;
  i64 block_table_stride, k_scale_stride, v_scale_stride;
  i32 batch, heads, heads_kv, seqlen_q, seqlen_k, head_dim, head_dim_v, page_size;
  float scale, soft_cap;
  i32 window_left;   ///< -1: none
  i32 window_right;  ///< -1: none; a causal mask is 0
  i32 splits;        ///< blocks of a KV head, or of all
};

// ---- instructions

using ptx::commit_copies;
using ptx::copy_async;
using ptx::exp2_approximate;
using ptx::floor_log2;
using ptx::load_matrices;
using ptx::load_transposed;
using ptx::multiply;
using ptx::pack;
using ptx::shared_address;
using ptx::transposed;
using ptx::wait_for_copies;

/// Two e4m3 numbers, bytes `Low` and `High` of `bytes`, as f16.
template <int Low, int High>
__device__ __forceinline__ u32 widened(u32 bytes) {
#if __CUDA_ARCH__ >= 890
  const u32 pair = Low == 0 && High == 1 ? bytes : __byte_perm(bytes, 0, Low | High << 4 | 0x4400);
  u32 result;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(static_cast<unsigned short>(pair)));
  return result;
#else
  // Shifted into place the number is 2^-8 of its value, subnormals included; the largest pattern is NaN.
  const u32 spread = __byte_perm(bytes, 0, 4 | Low << 4 | 4 << 8 | High << 12);
  const u32 magnitude = (spread & 0x7F007F00U) >> 1;
  const u32 value = magnitude | (spread & 0x80008000U);
  const __half2 scaled = __hmul2(*reinterpret_cast<const __half2*>(&value), __float2half2_rn(256.0F));
  const u32 nan = ((magnitude + 0x00800080U) & 0x40004000U) >> 14;  // bit 14 by the carry of 0x3F80
  return *reinterpret_cast<const u32*>(&scaled) | nan * 0x7E00U;
#endif
}

// ---- clusters and dependent launches; nothing where there are none

using ptx::allow_next_launch;
using ptx::wait_for_previous_launch;

__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
#endif
}
/// A float in the shared memory of block `rank` of the cluster, where this block has it at `address`.
__device__ __forceinline__ float load_of_cluster(u32 address, u32 rank) {
  float result = 0.0F;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\t"
      "ld.shared::cluster.f32 %0, [there];\n\t}"
      : "=f"(result)
      : "r"(address), "r"(rank)
      : "memory");
#endif
  return result;
}

// ---- a call, seen from a tile of query rows

/// Rows [first, first + count) of those that share a KV head: row r is query r / group of head r % group.
struct decode_rows {
  int first;
  int count;
  int group;

  __device__ __forceinline__ decode_rows(const decode_call& call, int tile, int rows)
      : first{tile * rows}, group{call.heads / call.heads_kv} {
    count = min(rows, call.seqlen_q * group - first);
  }
  /// Rows [from, from + rows) of these; none where there are fewer, and row count - 1 is then one before
  /// them.
  [[nodiscard]] __device__ __forceinline__ decode_rows part(int from, int rows) const {
    decode_rows result = *this;
    result.first += from;
    result.count = min(rows, count - from);
    return result;
  }
  __device__ __forceinline__ int query(int r) const { return (first + r) / group; }
  __device__ __forceinline__ int head(int r) const { return (first + r) % group; }
};

/// The keys of a sequence that a tile of rows sees, in tiles of `Keys` from `begin`; every row sees those of
/// [open_begin, open_end).
template <int Keys>
struct decode_span {
  int begin, end;
  int open_begin, open_end;
  int diagonal;  ///< of key over query
  int tiles;

  __device__ __forceinline__ decode_span(const decode_call& call, const decode_rows& rows, int b) {
    const int keys = call.seqused_k != nullptr ? call.seqused_k[b] : call.seqlen_k;
    const int first = rows.query(0);
    const int last = rows.query(rows.count - 1);
    const int right = call.window_right < 0 ? 1 << 29 : call.window_right;
    const int left = call.window_left < 0 ? 1 << 30 : call.window_left;
    diagonal = keys - call.seqlen_q;
    end = max(min(keys, last + diagonal + right + 1), 0);
    begin = min(max(first + diagonal - left, 0), end) / Keys * Keys;
    open_begin = last + diagonal - left;
    open_end = min(keys, first + diagonal + right + 1);
    tiles = (end - begin + Keys - 1) / Keys;
  }
};

// ---- a warp's work

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

/// A tile of query rows in a warp: queries, and the softmax so far of the keys that the warp has seen.
template <class Shape>
struct row_state {
  static constexpr int Tiles = Shape::Tiles;
  static constexpr int steps = Shape::steps;
  static constexpr int Keys = Shape::Keys;

  u32 queries[Tiles][steps]
             [2];          ///< as the B operand of K Q^T: of 16 dims, a thread has two pairs of its row's
  float factor[Tiles][2];  ///< of the scores of the rows that are this thread's columns
  float slope[Tiles][2];
  float values[Tiles][steps][4];
  float largest[Tiles][2];
  float total[Tiles][2];

  __device__ __forceinline__ void start(const decode_call& call, const decode_rows& rows, int b, int head_kv,
                                        int lane) {
    const float scale =
        call.scale * (call.k_scale != nullptr ? call.k_scale[head_kv * call.k_scale_stride] : 1.0F);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      const int r = tile * 8 + lane / 4;
      const char* from =
          static_cast<const char*>(call.q) +
          2 * (b * call.q_stride_batch + (head_kv * rows.group + rows.head(r)) * call.q_stride_head +
               rows.query(r) * call.q_stride_token);
#pragma unroll
      for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = step * 16 + (Shape::Narrow ? lane % 4 * 4 + half * 2 : lane % 4 * 2 + half * 8);
          queries[tile][step][half] = 0;
          if (r < rows.count && d < call.head_dim) {
            queries[tile][step][half] = *reinterpret_cast<const u32*>(from + 2 * d);
          }
          values[tile][step][half] = values[tile][step][2 + half] = 0.0F;
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = min(tile * 8 + lane % 4 * 2 + j, rows.count - 1);
        factor[tile][j] = scale;
        slope[tile][j] =
            call.alibi_slopes != nullptr ? call.alibi_slopes[head_kv * rows.group + rows.head(column)] : 0.0F;
        largest[tile][j] = -INFINITY;
        total[tile][j] = 0.0F;
      }
      if constexpr (!std::is_same_v<typename Shape::Element, typename Shape::Number>)
        narrow_queries(tile, lane);
    }
  }

  /// bf16 to f16, over the power of two below the row's largest.
  __device__ __forceinline__ void narrow_queries(int tile, int lane) {
    float most = 0.0F;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 pair = queries[tile][step][half];
        most = fmaxf(most,
                     fmaxf(fabsf(__uint_as_float(pair << 16)), fabsf(__uint_as_float(pair & 0xFFFF0000U))));
      }
    }
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
    const u32 exponent =
        max(min(__float_as_uint(most) >> 23, 253U), 1U);  // the inverse is to be a float as well
    const float unit = __uint_as_float(exponent << 23);
    const float inverse = __uint_as_float((254U - exponent) << 23);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 pair = queries[tile][step][half];
        queries[tile][step][half] = pack<__half>(__uint_as_float(pair << 16) * inverse,
                                                 __uint_as_float(pair & 0xFFFF0000U) * inverse);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) factor[tile][j] *= __shfl_sync(~0U, unit, (lane % 4 * 2 + j) * 4);
  }

  /// Takes in the keys [key, key + Keys), which lie in shared memory, or will when the copies are waited for.
  /// Calls keys_done and values_done when they may be overwritten; each commits one group of copies. In a
  /// team, values_done is called at the start, for the values of the tile before: where all meet anyway.
  template <class KeysDone, class ValuesDone>
  __device__ __forceinline__ void take(const decode_call& call, const decode_rows& rows,
                                       const decode_span<Keys>& span, u32 k_tile, u32 v_tile, int key,
                                       int team, int lane, KeysDone&& keys_done, ValuesDone&& values_done) {
    constexpr bool alone = Shape::Team == 1;
    constexpr int pending =
        2 * Shape::Stages - (alone ? 1 : 2);  // keys and values of a tile are groups of their own
    wait_for_copies<pending>();
    meet_team<Shape>(team);
    if constexpr (!alone) values_done();
    float scores[Keys / 16][Tiles][4] = {};
#pragma unroll
    for (int m = 0; m < Keys / 16; ++m) multiply_keys(scores[m], k_tile, m * 16 + lane % 16, lane);
    if constexpr (alone) {
      __syncwarp();
      keys_done();
    }

    const bool terms = call.soft_cap != 0.0F || call.alibi_slopes != nullptr;
    const bool masked = key < span.open_begin || key + Keys > span.open_end;
    const int right = call.window_right < 0 ? 1 << 29 : call.window_right;
    const int left = call.window_left < 0 ? 1 << 30 : call.window_left;
    if constexpr (Shape::Lean) {
      finish_scores(call, rows, span, scores, key, lane, terms, masked, left, right);
    }
    u32 weights[Keys / 16][Tiles][2];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      float now[2] = {largest[tile][0], largest[tile][1]};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int centre = rows.query(tile * 8 + lane % 4 * 2 + j) + span.diagonal;
#pragma unroll
        for (int m = 0; m < Keys / 16; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& score = scores[m][tile][2 * half + j];
            const int at = key + m * 16 + half * 8 + lane / 4;
            if constexpr (Shape::Lean) {
              now[j] = fmaxf(now[j], score);
              continue;
            }
            if (terms) {
              score *= factor[tile][j];
              if (call.soft_cap != 0.0F) score = call.soft_cap * tanhf(score / call.soft_cap);
              score -= slope[tile][j] * static_cast<float>(abs(centre - at));
              score *= log2e;
            } else {
              score *= factor[tile][j] * log2e;
            }
            if (masked && (at >= span.end || at > centre + right || at < centre - left)) score = -INFINITY;
            now[j] = fmaxf(now[j], score);
          }
        }
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        now[0] = fmaxf(now[0], __shfl_xor_sync(~0U, now[0], step));
        now[1] = fmaxf(now[1], __shfl_xor_sync(~0U, now[1], step));
      }
      float shift[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) shift[j] = now[j] == -INFINITY ? 0.0F : now[j];
      if (__any_sync(~0U, now[0] != largest[tile][0] || now[1] != largest[tile][1])) {
        const float rescale[2] = {exp2_approximate(largest[tile][0] - shift[0]),
                                  exp2_approximate(largest[tile][1] - shift[1])};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          total[tile][j] *= rescale[j];
          largest[tile][j] = now[j];
#pragma unroll
          for (int step = 0; step < steps; ++step) {
            values[tile][step][j] *= rescale[j];
            values[tile][step][2 + j] *= rescale[j];
          }
        }
      }
#pragma unroll
      for (int m = 0; m < Keys / 16; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float low = exp2_approximate(scores[m][tile][2 * half] - shift[0]);
          const float high = exp2_approximate(scores[m][tile][2 * half + 1] - shift[1]);
          total[tile][0] += low;
          total[tile][1] += high;
          weights[m][tile][half] = transposed(pack<typename Shape::Number>(low, high));
        }
      }
    }
    wait_for_copies<pending>();
    meet_team<Shape>(team);
    if constexpr (!alone) keys_done();
#pragma unroll
    for (int m = 0; m < Keys / 16; ++m) multiply_values(weights[m], v_tile, m * 16, lane);
    if constexpr (alone) {
      __syncwarp();
      values_done();
    }
  }

  /// Products to scores in units of the binary logarithm; what a tile does not need is not asked for each.
  __device__ __forceinline__ void finish_scores(const decode_call& call, const decode_rows& rows,
                                                const decode_span<Keys>& span,
                                                float (&scores)[Keys / 16][Tiles][4], int key, int lane,
                                                bool terms, bool masked, int left, int right) const {
    const auto each = [&](auto&& change) {
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int n = 0; n < Keys / 8; ++n) {
            change(scores[n / 2][tile][n % 2 * 2 + j], tile, j, key + n * 8 + lane / 4);
          }
        }
      }
    };
    const auto centre = [&](int tile, int j) {
      return rows.query(tile * 8 + lane % 4 * 2 + j) + span.diagonal;
    };
    if (terms) {
      each([&](float& score, int tile, int j, int at) {
        score *= factor[tile][j];
        if (call.soft_cap != 0.0F) score = call.soft_cap * tanhf(score / call.soft_cap);
        score -= slope[tile][j] * static_cast<float>(abs(centre(tile, j) - at));
        score *= log2e;
      });
    } else {
      each([&](float& score, int tile, int j, int) { score *= factor[tile][j] * log2e; });
    }
    if (masked) {
      each([&](float& score, int tile, int j, int at) {
        const int middle = centre(tile, j);
        if (at >= span.end || at > middle + right || at < middle - left) score = -INFINITY;
      });
    }
  }

  /// Scores of 16 keys; `row` is the one whose address this thread gives.
  __device__ __forceinline__ void multiply_keys(float (&scores)[Tiles][4], u32 k_tile, int row,
                                                int lane) const {
    if constexpr (Shape::Narrow) {
#pragma unroll
      for (int step = 0; step < steps; step += 2) {
        u32 packed[4];
        load_matrices(packed, k_tile + Shape::place(row, step + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 a[4] = {widened<0, 1>(packed[2 * i]), widened<0, 1>(packed[2 * i + 1]),
                            widened<2, 3>(packed[2 * i]), widened<2, 3>(packed[2 * i + 1])};
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            multiply<typename Shape::Number>(scores[tile], a, queries[tile][step + i][0],
                                             queries[tile][step + i][1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        u32 a[4];
        load_matrices(a, k_tile + Shape::place(row, 2 * step + lane / 16));
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          multiply<typename Shape::Number>(scores[tile], a, queries[tile][step][0], queries[tile][step][1]);
        }
      }
    }
  }

  /// Adds the weighted values of 16 keys. Of e4m3, a matrix element of two bytes holds two dims of a key,
  /// which become rows r and r + 8 of the product: dims 2r and 2r + 1.
  __device__ __forceinline__ void multiply_values(const u32 (&weights)[Tiles][2], u32 v_tile, int first,
                                                  int lane) {
    if constexpr (Shape::Narrow) {
#pragma unroll
      for (int step = 0; step < steps; step += 2) {
        u32 packed[4];
        load_transposed(packed, v_tile + Shape::place(first + lane % 16, step + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 a[4] = {widened<0, 2>(packed[2 * i]), widened<1, 3>(packed[2 * i]),
                            widened<0, 2>(packed[2 * i + 1]), widened<1, 3>(packed[2 * i + 1])};
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            multiply<typename Shape::Number>(values[tile][step + i], a, weights[tile][0], weights[tile][1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        u32 a[4];
        load_transposed(a, v_tile + Shape::place(first + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          multiply<typename Shape::Number>(values[tile][step], a, weights[tile][0], weights[tile][1]);
        }
      }
    }
  }
};

// ---- what warps and blocks join

/// Rows of values over exp2(largest), with their sums and largest scores, in shared memory.
template <int Rows, int Dim>
struct joined_rows {
  float values[Rows][Dim];
  float largest[Rows];
  float total[Rows];
};

template <class Shape>
using joined = joined_rows<Shape::rows, Shape::Dim>;

/// The warp's rows, which are [first, first + warp_rows) of the block's.
template <class Shape>
__device__ __forceinline__ void put_rows(const row_state<Shape>& state, joined<Shape>& to, int first,
                                         int lane) {
#pragma unroll
  for (int tile = 0; tile < Shape::Tiles; ++tile) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float sum = state.total[tile][j];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      const int r = first + tile * 8 + lane % 4 * 2 + j;
      if (lane < 4) {
        to.largest[r] = state.largest[tile][j];
        to.total[r] = sum;
      }
#pragma unroll
      for (int step = 0; step < Shape::steps; ++step) {
        const int d = step * 16 + (Shape::Narrow ? lane / 4 * 2 : lane / 4);
        to.values[r][d] = state.values[tile][step][j];
        to.values[r][d + (Shape::Narrow ? 1 : 8)] = state.values[tile][step][2 + j];
      }
    }
  }
}

/// An element of a row, and its row's sum, over exp2(largest).
struct row_value {
  float largest = -INFINITY;
  float total = 0.0F;
  float value = 0.0F;
};

template <int Teams, int Rows, int Dim>
__device__ __forceinline__ row_value join_teams(const joined_rows<Rows, Dim>* teams, int r, int d) {
  row_value result;
#pragma unroll
  for (int t = 0; t < Teams; ++t) result.largest = fmaxf(result.largest, teams[t].largest[r]);
  const float shift = result.largest == -INFINITY ? 0.0F : result.largest;
#pragma unroll
  for (int t = 0; t < Teams; ++t) {
    const float weight = exp2_approximate(teams[t].largest[r] - shift);
    result.value += weight * teams[t].values[r][d];
    result.total += weight * teams[t].total[r];
  }
  return result;
}

/// Takes the sink in and writes an element of the output, and with the first the LSE.
template <class Element>
__device__ __forceinline__ void write_out(const decode_call& call, row_value of, i64 b, int h, int query,
                                          int d) {
  const float sink = call.sinks != nullptr ? call.sinks[h] * log2e : -INFINITY;
  const float most = fmaxf(of.largest, sink);
  const float shift = most == -INFINITY ? 0.0F : most;
  const float rescale = exp2_approximate(of.largest - shift);
  const float total = of.total * rescale + exp2_approximate(sink - shift);
  if (d < call.head_dim_v) {
    const int head_kv = h / (call.heads / call.heads_kv);
    const float v_scale = call.v_scale != nullptr ? call.v_scale[head_kv * call.v_scale_stride] : 1.0F;
    static_cast<Element*>(
        call.out)[b * call.out_stride_batch + h * call.out_stride_head + query * call.out_stride_token + d] =
        static_cast<Element>(total == 0.0F ? 0.0F : of.value * rescale / total * v_scale);
  }
  if (d == 0 && call.lse != nullptr) {
    call.lse[b * call.lse_stride_batch + h * call.lse_stride_head + query] =
        total == 0.0F ? -INFINITY : (most + log2f(total)) * ln2;
  }
}

/// Bytes of shared memory, as the space file computes them.
template <class Shape>
constexpr int shared_bytes = Shape::ring_bytes > (Shape::teams + 1) * static_cast<int>(sizeof(joined<Shape>))
                                 ? Shape::ring_bytes
                                 : (Shape::teams + 1) * static_cast<int>(sizeof(joined<Shape>));
template <class Shape>
constexpr int persistent_shared_bytes = Shape::ring_bytes +
                                        Shape::Warps* static_cast<int>(sizeof(joined<Shape>));

// ---- a block for a share of one KV head's keys

/// The grid is [splits * heads_kv * batch, tiles of rows]. The splits of a KV head are a cluster.
template <class Shape>
__device__ __forceinline__ void decode_split(const decode_call& call) {
  constexpr int Warps = Shape::Warps;
  constexpr int Keys = Shape::Keys;
  constexpr int Stages = Shape::Stages;
  constexpr int Teams = Shape::teams;
  extern __shared__ __align__(128) char memory[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int team = warp / Shape::Team;
  const int member = warp % Shape::Team;
  const int split = static_cast<int>(blockIdx.x) % call.splits;
  const int item = static_cast<int>(blockIdx.x) / call.splits;
  const int head_kv = item % call.heads_kv;
  const int b = item / call.heads_kv;
  const decode_rows rows{call, static_cast<int>(blockIdx.y), Shape::rows};
  decode_rows own = rows;
  if constexpr (Shape::Team > 1) own = rows.part(member * Shape::warp_rows, Shape::warp_rows);

  allow_next_launch();
  wait_for_previous_launch();

  const decode_span<Keys> span{call, rows, b};
  // Whole tiles, distributed as evenly as possible.
  const int first_tile = static_cast<int>(static_cast<i64>(span.tiles) * split / call.splits);
  const int last_tile = static_cast<int>(static_cast<i64>(span.tiles) * (split + 1) / call.splits);
  const int mine = (last_tile - first_tile - team + Teams - 1) / Teams;
  const auto key_of = [&](int n) { return span.begin + (first_tile + team + n * Teams) * Keys; };

  const tile_ring<Shape> ring{call, memory, team, member, lane};
  const auto page_of = [&](int n) {
    return Shape::Paged && n < mine ? ring.page(b, key_of(n), span.end) : 0;
  };
  int pages[Stages + 1];
#pragma unroll
  for (int n = 0; n <= Stages; ++n) pages[n] = page_of(n);
#pragma unroll
  for (int n = 0; n < Stages; ++n) {
    if (n < mine) ring.copy_keys(n, b, head_kv, key_of(n), span.end, pages[n]);
    commit_copies();
    if (Shape::Team > 1 && n == Stages - 1) break;  // a team copies these when it has met
    if (n < mine) ring.copy_values(n, b, head_kv, key_of(n), span.end, pages[n]);
    commit_copies();
  }
  int next_page = pages[Stages];
  [[maybe_unused]] int copied_page = pages[Stages - 1];  // of the last keys

  row_state<Shape> state;
  state.start(call, own, b, head_kv, lane);
  int stage = 0;
  for (int n = 0; n < mine; ++n) {
    const int next = key_of(n + Stages);
    state.take(
        call, own, span, ring.k_tile(stage), ring.v_tile(stage), key_of(n), team, lane,
        [&] {
          if (n + Stages < mine) ring.copy_keys(stage, b, head_kv, next, span.end, next_page);
          commit_copies();
        },
        [&] {
          if constexpr (Shape::Team == 1) {
            if (n + Stages < mine) ring.copy_values(stage, b, head_kv, next, span.end, next_page);
          } else if (n + Stages - 1 < mine) {
            ring.copy_values(stage == 0 ? Stages - 1 : stage - 1, b, head_kv, key_of(n + Stages - 1),
                             span.end, copied_page);
          }
          commit_copies();
        });
    if constexpr (Shape::Team > 1) copied_page = next_page;
    next_page = page_of(n + Stages + 1);
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }
  wait_for_copies<0>();

  auto* const teams = reinterpret_cast<joined<Shape>*>(memory);
  joined<Shape>& block = teams[Teams];
  __syncthreads();  // before that, other teams' buffers are in use
  put_rows<Shape>(state, teams[team], member * Shape::warp_rows, lane);
  __syncthreads();
  const int live = rows.count * Shape::Dim;
  const int blocks = call.splits;
  for (int at = static_cast<int>(threadIdx.x); at < live; at += Warps * 32) {
    const int r = at / Shape::Dim;
    const int d = at % Shape::Dim;
    const row_value value = join_teams<Teams>(teams, r, d);
    if (blocks == 1) {
      write_out<typename Shape::Element>(call, value, b, head_kv * rows.group + rows.head(r), rows.query(r),
                                         d);
      continue;
    }
    block.values[r][d] = value.value;
    if (d == 0) {
      block.largest[r] = value.largest;
      block.total[r] = value.total;
    }
  }
  if (blocks == 1) return;

  // Each block of the cluster joins a part of the output.
  meet_cluster();
  constexpr int most_splits = 8;
  for (int at = split * (Warps * 32) + static_cast<int>(threadIdx.x); at < live; at += blocks * Warps * 32) {
    const int r = at / Shape::Dim;
    const int d = at % Shape::Dim;
    row_value part[most_splits];
#pragma unroll
    for (int i = 0; i < most_splits; ++i) {
      if (i >= blocks) break;
      part[i].largest = load_of_cluster(shared_address(&block.largest[r]), static_cast<u32>(i));
      part[i].total = load_of_cluster(shared_address(&block.total[r]), static_cast<u32>(i));
      part[i].value = load_of_cluster(shared_address(&block.values[r][d]), static_cast<u32>(i));
    }
    row_value all;
#pragma unroll
    for (int i = 0; i < most_splits; ++i) all.largest = fmaxf(all.largest, part[i].largest);
    const float shift = all.largest == -INFINITY ? 0.0F : all.largest;
#pragma unroll
    for (int i = 0; i < most_splits; ++i) {
      const float weight = exp2_approximate(part[i].largest - shift);
      all.value += weight * part[i].value;
      all.total += weight * part[i].total;
    }
    write_out<typename Shape::Element>(call, all, b, head_kv * rows.group + rows.head(r), rows.query(r), d);
  }
  meet_cluster();  // nobody's memory goes away while others read it
}

// ---- persistent blocks: all tiles of all sequences, distributed evenly

/// Where KV heads' tiles lie among all: those of a sequence one after the other, sequence after sequence.
template <int Keys>
struct tile_line {
  const decode_call& call;
  const decode_rows& rows;
  int total = 0;

  /// All threads of a warp call these together.
  __device__ __forceinline__ tile_line(const decode_call& of, const decode_rows& of_rows, int lane)
      : call{of}, rows{of_rows} {
    if (call.seqused_k == nullptr) {
      total = decode_span<Keys>{call, rows, 0}.tiles * call.heads_kv * call.batch;
      return;
    }
    for (int b = lane; b < call.batch; b += 32)
      total += decode_span<Keys>{call, rows, b}.tiles * call.heads_kv;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) total += __shfl_xor_sync(~0U, total, step);
  }
  /// The first tile of block `block` of `blocks`: total * block / blocks, in 32 bits.
  [[nodiscard]] __device__ __forceinline__ int first_of(int block, int blocks) const {
    const int each = total / blocks;
    return block * each + block * (total - each * blocks) / blocks;
  }
  /// The first tile of a sequence.
  [[nodiscard]] __device__ __forceinline__ int first_of_sequence(int b, int lane) const {
    if (call.seqused_k == nullptr) return decode_span<Keys>{call, rows, 0}.tiles * call.heads_kv * b;
    int sum = 0;
    for (int i = lane; i < b; i += 32) sum += decode_span<Keys>{call, rows, i}.tiles * call.heads_kv;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
    return sum;
  }
  /// The sequence of a tile below `total`, and the tile's number in it.
  __device__ __forceinline__ int sequence_of(int tile, int& within, int lane) const {
    if (call.seqused_k == nullptr) {
      const int each = decode_span<Keys>{call, rows, 0}.tiles * call.heads_kv;
      within = tile % each;
      return tile / each;
    }
    int before = 0;
    for (int base = 0;; base += 32) {
      const int b = base + lane;
      const int here = b < call.batch ? decode_span<Keys>{call, rows, b}.tiles * call.heads_kv : 0;
      int through = here;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int lower = __shfl_up_sync(~0U, through, step);
        if (lane >= step) through += lower;
      }
      const u32 behind = __ballot_sync(~0U, before + through > tile);
      if (behind != 0) {
        const int found = __ffs(static_cast<int>(behind)) - 1;
        within = tile - before - __shfl_sync(~0U, through - here, found);
        return base + found;
      }
      before += __shfl_sync(~0U, through, 31);
    }
  }
};

/// A place on the line: a tile of a KV head of a sequence.
template <int Keys>
struct line_place {
  int b, head_kv, tile;
  decode_span<Keys> span;

  __device__ __forceinline__ line_place(const decode_call& call, const decode_rows& rows, int sequence,
                                        int within)
      : b{sequence}, span{call, rows, sequence} {
    head_kv = within / span.tiles;
    tile = within % span.tiles;
  }
  /// Moves on; past the end b is the batch.
  __device__ __forceinline__ void advance(const decode_call& call, const decode_rows& rows, int tiles) {
    tile += tiles;
    while (tile >= span.tiles) {
      tile -= span.tiles;
      if (++head_kv < call.heads_kv) continue;
      head_kv = 0;
      if (++b == call.batch) return;
      if (call.seqused_k != nullptr) span = decode_span<Keys>{call, rows, b};
    }
  }
  [[nodiscard]] __device__ __forceinline__ int key() const { return span.begin + tile * Keys; }
};

/// Where a block puts a part of a KV head's result: [tiles of rows][blocks][2][rows], the first of a block's
/// KV heads and the last.
__device__ __forceinline__ i64 part_index(int row_tile, int blocks, int block, bool last, int rows) {
  return ((static_cast<i64>(row_tile) * blocks + block) * 2 + (last ? 1 : 0)) * rows;
}

/// The grid is [blocks, tiles of rows]. What one block has whole it writes out; parts wait for decode_join.
template <class Shape>
__device__ __forceinline__ void decode_persistent(const decode_call& call) {
  constexpr int Warps = Shape::Warps;
  constexpr int Keys = Shape::Keys;
  constexpr int Stages = Shape::Stages;
  static_assert(Shape::Team == 1);
  extern __shared__ __align__(128) char memory[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int row_tile = static_cast<int>(blockIdx.y);
  const decode_rows rows{call, row_tile, Shape::rows};

  wait_for_previous_launch();
  allow_next_launch();  // now, so that decode_join may read lengths before it waits

  const tile_line<Keys> line{call, rows, lane};
  const int first = line.first_of(block, blocks);
  const int last = line.first_of(block + 1, blocks);
  if (first >= last) return;
  int within = 0;
  const int sequence = line.sequence_of(first, within, lane);
  line_place<Keys> at{call, rows, sequence, within};  // what is computed next, of the block
  line_place<Keys> ahead = at;                        // what is copied next, of the warp
  ahead.advance(call, rows, warp);
  int copied = first + warp;

  const tile_ring<Shape> ring{call, memory, warp, 0, lane};
  auto* const warps = reinterpret_cast<joined<Shape>*>(memory + Shape::ring_bytes);
  // Asked for a tile ahead, so that no copy waits for it.
  int page = Shape::Paged && copied < last ? ring.page(ahead.b, ahead.key(), ahead.span.end) : 0;
  const auto copy_keys = [&](int stage) {
    if (copied < last) ring.copy_keys(stage, ahead.b, ahead.head_kv, ahead.key(), ahead.span.end, page);
    commit_copies();
  };
  const auto copy_values = [&](int stage) {
    if (copied < last) {
      ring.copy_values(stage, ahead.b, ahead.head_kv, ahead.key(), ahead.span.end, page);
      copied += Warps;
      if (copied < last) {
        ahead.advance(call, rows, Warps);
        if constexpr (Shape::Paged) page = ring.page(ahead.b, ahead.key(), ahead.span.end);
      }
    }
    commit_copies();
  };
#pragma unroll
  for (int n = 0; n < Stages; ++n) {
    copy_keys(n);
    copy_values(n);
  }

  int stage = 0;
  row_state<Shape> state;
  for (int done = first; done < last;) {
    const int here = min(at.span.tiles - at.tile, last - done);
    state.start(call, rows, at.b, at.head_kv, lane);
    // Tile n of the block is warp n % Warps's.
    for (int i = (warp + Warps - (done - first) % Warps) % Warps; i < here; i += Warps) {
      state.take(
          call, rows, at.span, ring.k_tile(stage), ring.v_tile(stage), at.key() + i * Keys, warp, lane,
          [&] { copy_keys(stage); }, [&] { copy_values(stage); });
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    __syncthreads();  // nobody reads what was joined before
    put_rows<Shape>(state, warps[warp], 0, lane);
    __syncthreads();
    const bool whole = at.tile == 0 && here == at.span.tiles;
    for (int n = static_cast<int>(threadIdx.x); n < rows.count * Shape::Dim; n += Warps * 32) {
      const int r = n / Shape::Dim;
      const int d = n % Shape::Dim;
      const row_value value = join_teams<Warps>(warps, r, d);
      if (whole) {
        write_out<typename Shape::Element>(call, value, at.b, at.head_kv * rows.group + rows.head(r),
                                           rows.query(r), d);
        continue;
      }
      const i64 index = part_index(row_tile, blocks, block, done != first, Shape::rows) + r;
      if (d < call.head_dim_v) call.partial[index * call.head_dim_v + d] = value.value;
      if (d == 0) {
        call.partial_state[2 * index] = value.largest;
        call.partial_state[2 * index + 1] = value.total;
      }
    }
    done += here;
    if (done < last) at.advance(call, rows, here);
  }
  wait_for_copies<0>();
}

/// Most blocks of decode_persistent's grid.
constexpr int most_blocks = 512;

/// So many that a thread has few elements: what each waits for is one read of memory after the other.
constexpr int join_threads = 512;

/// Joins the parts of one KV head, or writes what a sequence without keys gives. The grid is [heads_kv *
/// batch, tiles of rows]; `blocks` is decode_persistent's grid.
template <class Element, int Rows, int Keys>
__device__ __forceinline__ void decode_join(const decode_call& call, int blocks) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int b = static_cast<int>(blockIdx.x) / call.heads_kv;
  const int head_kv = static_cast<int>(blockIdx.x) % call.heads_kv;
  const int row_tile = static_cast<int>(blockIdx.y);
  const decode_rows rows{call, row_tile, Rows};

  allow_next_launch();

  const tile_line<Keys> line{call, rows, lane};
  const int tiles = decode_span<Keys>{call, rows, b}.tiles;
  const int begin = line.first_of_sequence(b, lane) + head_kv * tiles;
  int from = 0;
  int to = -1;
  if (tiles > 0) {
    const auto block_of = [&](int tile) {
      const float about = __fdividef(static_cast<float>(tile), static_cast<float>(line.total));
      int block = min(static_cast<int>(about * static_cast<float>(blocks)), blocks - 1);
      while (line.first_of(block + 1, blocks) <= tile) ++block;
      while (line.first_of(block, blocks) > tile) --block;
      return block;
    };
    from = block_of(begin);
    to = block_of(begin + tiles - 1);
  }
  wait_for_previous_launch();           // in any case: what follows takes this launch's end for that of both
  if (tiles > 0 && from == to) return;  // written by that block
  const int parts = to - from + 1;
  __shared__ int index_of[most_blocks];  // of the parts' first rows; -1: a block without tiles
  __shared__ float weight_of[most_blocks][Rows];
  __shared__ row_value joined_row[Rows];
  for (int p = static_cast<int>(threadIdx.x); p < parts; p += join_threads) {
    const int first = line.first_of(from + p, blocks);
    const bool empty = first == line.first_of(from + p + 1, blocks);
    index_of[p] = empty ? -1 : static_cast<int>(part_index(row_tile, blocks, from + p, first < begin, Rows));
  }
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows.count; r += join_threads / 32) {
    row_value all;
    for (int p = lane; p < parts; p += 32) {
      if (index_of[p] >= 0) all.largest = fmaxf(all.largest, call.partial_state[2 * (index_of[p] + r)]);
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
      all.largest = fmaxf(all.largest, __shfl_xor_sync(~0U, all.largest, step));
    const float shift = all.largest == -INFINITY ? 0.0F : all.largest;
    for (int p = lane; p < parts; p += 32) {
      float weight = 0.0F;
      if (index_of[p] >= 0) {
        weight = exp2_approximate(call.partial_state[2 * (index_of[p] + r)] - shift);
        all.total += weight * call.partial_state[2 * (index_of[p] + r) + 1];
      }
      weight_of[p][r] = weight;
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) all.total += __shfl_xor_sync(~0U, all.total, step);
    if (lane == 0) joined_row[r] = all;
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < rows.count * call.head_dim_v; n += join_threads) {
    const int r = n / call.head_dim_v;
    const int d = n % call.head_dim_v;
    row_value all = joined_row[r];
#pragma unroll 16
    for (int p = 0; p < parts; ++p) {
      const i64 index = max(index_of[p], 0) + r;
      const float value = call.partial[index * call.head_dim_v + d];
      if (index_of[p] >= 0) all.value += weight_of[p][r] * value;  // what no block has written may be NaN
    }
    write_out<Element>(call, all, b, head_kv * rows.group + rows.head(r), rows.query(r), d);
  }
}

using f16 = __half;
using bf16 = __nv_bfloat16;

}  // namespace sy

#define SY_DECODE_SPLIT(name, element, narrow, dim, tiles, warps, keys, stages, paged)                     \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                 \
      name(const __grid_constant__ sy::decode_call call) {                                                 \
    sy::decode_split<sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged>>(call); \
  }

#define SY_DECODE_TEAM(name, element, narrow, dim, tiles, warps, keys, stages, paged, team)                  \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                   \
      name(const __grid_constant__ sy::decode_call call) {                                                   \
    using shape = sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged, team, true>; \
    sy::decode_split<shape>(call);                                                                           \
  }

#define SY_DECODE_PERSISTENT(name, element, narrow, dim, tiles, warps, keys, stages, paged)               \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                \
      name(const __grid_constant__ sy::decode_call call) {                                                \
    sy::decode_persistent<sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged>>( \
        call);                                                                                            \
  }

#define SY_DECODE_JOIN(name, element, tiles, keys)                    \
  extern "C" __global__ void __launch_bounds__(sy::join_threads)      \
      name(const __grid_constant__ sy::decode_call call) {            \
    sy::decode_join<sy::element, 8 * tiles, keys>(call, call.splits); \
  }
