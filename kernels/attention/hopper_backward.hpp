// SPDX-License-Identifier: MIT
// What the launches of attention backward on Hopper agree upon: arguments, tiles, layout of the workspaces.
#pragma once

#include "hopper_parts.hpp"

namespace hopper {

/// What a launch computes; operators/attention_backward.hpp has the meaning of most. The sums of dq lie by
/// batch entry, head and tile of queries; inside a tile as its products leave them: by warp, then by four of
/// a thread's numbers, then by lane.
struct backward_problem {
  const void* out;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  const float* lse;
  float* dq_sum;      ///< [batch, heads, rows, head_dim], in tiles
  float* delta;       ///< [batch, heads, rows]: rowsum(dout * out) - dlse
  float* scaled_lse;  ///< likewise: in base 2, infinite where a row sees nothing or is not there
  float* dk_sum;   ///< [batch, heads_kv, rows_k, head_dim], in tiles; null: a block has all heads of a group
  float* dv_sum;   ///< likewise
  i32* next_tile;  ///< a counter, zeroed by the first launch
  void* packed_maps;  ///< of packed calls: room for the tensor maps of hopper_packed_maps.hpp
  const i32* cu_seqlens_q;
  const i32* cu_seqlens_k;
  const i32* seqused_q;
  const i32* seqused_k;
  i64 out_stride_batch, out_stride_head, out_stride_token;
  i64 dout_stride_batch, dout_stride_head, dout_stride_token;
  i64 dq_stride_batch, dq_stride_head, dq_stride_token;
  i64 dk_stride_batch, dk_stride_head, dk_stride_token;
  i64 dv_stride_batch, dv_stride_head, dv_stride_token;
  i64 lse_stride_batch, lse_stride_head;
  i32 batch;
  i32 heads;
  i32 heads_kv;
  i32 seqlen_q;
  i32 seqlen_k;
  i32 rows;     ///< seqlen_q rounded up to whole tiles
  i32 rows_k;   ///< likewise of seqlen_k
  i32 members;  ///< query heads of a group that one block takes
  i32 left;     ///< 2^29 or more: no limit
  i32 right;    ///< likewise
  i32 bottom_right;
  i32 has;      ///< bits, below
  i32 section;  ///< groups of query heads whose tiles are taken together, so that what they read stays in the
                ///< L2 cache
  i32 last_section;  ///< how many the last of these sections has, at least
  float scale;
  float soft_cap;
};

enum : i32 { has_cu_q = 2, has_cu_k = 4, has_used_q = 8, has_used_k = 16 };

/// Where the queries of a batch entry are.
struct query_rows {
  i32 entry;  ///< for strides
  i32 token;  ///< the first
  i32 count;
};

__device__ __forceinline__ query_rows find_queries(const backward_problem& p, i32 entry) {
  query_rows found{entry, 0, p.seqlen_q};
  if (p.has & has_cu_q) {
    found.entry = 0;
    found.token = __ldg(p.cu_seqlens_q + entry);
    found.count = __ldg(p.cu_seqlens_q + entry + 1) - found.token;
  }
  if (p.has & has_used_q) found.count = __ldg(p.seqused_q + entry);
  return found;
}

__device__ __forceinline__ query_rows find_keys(const backward_problem& p, i32 entry) {
  query_rows found{entry, 0, p.seqlen_k};
  if (p.has & has_cu_k) {
    found.entry = 0;
    found.token = __ldg(p.cu_seqlens_k + entry);
    found.count = __ldg(p.cu_seqlens_k + entry + 1) - found.token;
  }
  if (p.has & has_used_k) found.count = __ldg(p.seqused_k + entry);
  return found;
}

/// How the dq of a tile of queries is divided between two warpgroups: by rows where the tile has 128, else by
/// columns.
template <int Dim, int Queries>
struct dq_shares {
  static constexpr bool by_rows = Queries == 128;
  static constexpr int columns = by_rows ? Dim : Dim / 2;
  static constexpr int count = columns / 2;  ///< numbers of a thread
  static constexpr u32 warp_bytes = count * 128;
};

}  // namespace hopper
