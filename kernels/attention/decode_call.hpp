// SPDX-License-Identifier: MIT
// A call of attention_decode, seen from a tile of query rows.
#pragma once

#include <cstdint>

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

}  // namespace sy
