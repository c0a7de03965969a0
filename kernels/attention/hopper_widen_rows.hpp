// SPDX-License-Identifier: MIT
// Attention forward on Hopper over keys and values in e4m3: which rows the launch before makes in 16 bits,
// from where, and where they go. Plain C++: tests/kernels/widened_rows_test.cpp compiles it for the CPU.
#pragma once

namespace hopper {

using i32 = int;
using i64 = long long;

/// What a launch widens; operators/attention_forward.hpp has the meaning of most. The copies are [batch,
/// heads_kv, blocks, head_dim / 64, block, 64], of packed keys too: a block of keys is as the products read
/// it in shared memory, panels of 128-byte rows with the 128-byte swizzle.
struct widening {
  const unsigned char* k;
  const unsigned char* v;
  void* keys;
  void* values;
  i32* tile_counter;  ///< becomes zero, for the launch behind; null: none
  const i32* cu_seqlens_q;
  const i32* cu_seqlens_k;
  const i32* seqused_q;
  const i32* seqused_k;
  const i32* block_table;
  i64 block_table_stride;
  i64 k_strides[3];  ///< of batch entries or pages, heads, tokens
  i64 v_strides[3];
  i32 batch;
  i32 heads_kv;
  i32 seqlen_q;
  i32 seqlen_k;
  i32 left;   ///< as in hopper_forward_tiles.hpp
  i32 right;  ///< likewise
  i32 bottom_right;
  i32 page_size;
  i32 block;         ///< keys: 64 or 128
  i32 blocks;        ///< of a head, with room for seqlen_k, rounded up to the larger block
  i32 pieces;        ///< of 8 numbers in a row: 8 to 32, a multiple of 8
  i32 reciprocal;    ///< 2^16 / pieces, rounded up
  i32 rows_at_once;  ///< widening_threads / pieces
};

inline constexpr i32 widening_threads = 256;
inline constexpr i32 widening_loads = 8;      ///< of a thread, a piece each, all under way at once
inline constexpr i32 widening_largest = 128;  ///< keys of the larger block

/// Keys of a sequence, counted in it.
struct widened_keys {
  i32 entry;    ///< of the copies
  i32 entry_k;  ///< of the keys, or row of the block table
  i32 token_k;
  i32 begin, end;  ///< those whose rows are made: whole blocks, all that the launch behind reads
  i32 low, high;   ///< those of them that a query sees; the rows of others are zeros
};

/// Rows of a block of threads: all heads of a key, then the next key.
[[nodiscard]] __device__ __forceinline__ i32 rows_of_block(const widening& p) {
  return widening_loads * p.rows_at_once;
}

/// A tile copies the blocks of the keys that it sees, the first where it sees none: see() and locate() in
/// hopper_forward_tiles.hpp. The first query sees furthest to the left, the last to the right; where one sees
/// nothing, the first block is among those made, since then `low` is zero.
[[nodiscard]] __device__ __forceinline__ widened_keys keys_of_entry(const widening& p, i32 entry) {
  widened_keys out{entry, entry, 0, 0, 0, 0, 0};
  i32 queries = p.seqlen_q;
  i32 keys = p.seqlen_k;
  if (p.cu_seqlens_q != nullptr) queries = __ldg(p.cu_seqlens_q + entry + 1) - __ldg(p.cu_seqlens_q + entry);
  if (p.cu_seqlens_k != nullptr) {
    out.token_k = __ldg(p.cu_seqlens_k + entry);
    keys = __ldg(p.cu_seqlens_k + entry + 1) - out.token_k;
    out.entry_k = 0;
  }
  if (p.seqused_q != nullptr) queries = __ldg(p.seqused_q + entry);
  if (p.seqused_k != nullptr) keys = __ldg(p.seqused_k + entry);
  keys = min(keys, p.seqlen_k);  // there is no more room
  if (queries <= 0) return out;
  const i32 diagonal = p.bottom_right ? keys - queries : 0;
  out.low = max(diagonal - p.left, 0);
  out.high = max(min(keys, queries + diagonal + p.right), 0);
  out.begin = out.low / widening_largest * widening_largest;
  out.end = (max(out.high, 1) + widening_largest - 1) / widening_largest * widening_largest;
  return out;
}

/// A row of keys or of values.
struct widened_row {
  i64 from;  ///< where it starts; -1: it is zeros
  i32 to;    ///< in pieces, that of piece 0 without the swizzle; -1: it is not made
};

/// A key's row, by the strides of its tensor.
[[nodiscard]] __device__ __forceinline__ widened_row find_key(const widening& p, const widened_keys& s,
                                                              const i64 (&strides)[3], i32 key, i32 head) {
  if (key < s.begin || key >= s.end) return {-1, -1};
  const i32 block = p.block == widening_largest ? key / widening_largest : key / 64;
  const i32 item = (s.entry * p.heads_kv + head) * p.blocks + block;
  const i32 to = (item * p.pieces * p.block) + (key - block * p.block) * 8;
  if (key < s.low || key >= s.high) return {-1, to};
  i32 entry = s.entry_k;
  i32 token = s.token_k + key;
  if (p.block_table != nullptr) {
    const i32 page = key / p.page_size;
    entry = __ldg(p.block_table + s.entry_k * p.block_table_stride + page);
    token = key - page * p.page_size;
    if (entry < 0) return {-1, to};
  }
  return {entry * strides[0] + head * strides[1] + token * strides[2], to};
}

/// The keys or the values of a block, as hopper_forward_widening.hpp takes them one after the other.
struct widened_unit {
  i32 entry, head;
  i32 order;  ///< of the block in its head's
  bool values;
};

/// Blocks of a head, with what the last of its parts lack.
[[nodiscard]] __device__ __forceinline__ i32 orders_of_head(const widening& p, i32 parts) {
  return (p.blocks + parts - 1) / parts * parts;
}

/// Heads come in groups of `at_once`; of a group the first block of every head comes first.
[[nodiscard]] __device__ __forceinline__ widened_unit find_unit(const widening& p, i32 at_once, i32 parts,
                                                                i32 at) {
  const i32 each = orders_of_head(p, parts);
  const i32 unit = at / 2;
  const i32 group = unit / (at_once * each);
  const i32 inside = unit - group * at_once * each;
  const i32 here = min(p.batch * p.heads_kv - group * at_once, at_once);
  const i32 order = inside / here;
  const i32 item = group * at_once + inside - order * here;
  const i32 entry = item / p.heads_kv;
  return {entry, item - entry * p.heads_kv, order, at % 2 != 0};
}

/// Which of a head's blocks comes so late: the last of every part, then those before them; -1: none.
[[nodiscard]] __device__ __forceinline__ i32 find_block(const widening& p, const widened_keys& s, i32 parts,
                                                        i32 order) {
  const i32 count = s.end / p.block;
  const i32 step = order / parts;
  const i32 part = order - step * parts;
  const i32 block = count * (part + 1) / parts - 1 - step;
  return block < count * part / parts || block * p.block < s.begin ? -1 : block;
}

/// Row `at` of a sequence.
[[nodiscard]] __device__ __forceinline__ widened_row find_row(const widening& p, const widened_keys& s,
                                                              const i64 (&strides)[3], i32 at) {
  const i32 key = at / p.heads_kv;
  return find_key(p, s, strides, key, at - key * p.heads_kv);
}

/// Where a piece of a row goes: in panels of 8 pieces, swizzled by the row in its block.
[[nodiscard]] __device__ __forceinline__ i32 place_of(const widening& p, i32 row, i32 piece) {
  return row + piece / 8 * 8 * p.block + ((piece ^ (row / 8)) & 7);
}

}  // namespace hopper
