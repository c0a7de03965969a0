// SPDX-License-Identifier: MIT
// Block masks of attention: which blocks of keys a block of queries sees, as FlexAttention's BlockMask lists
// them, and which keys each query sees in blocks that are seen in part.
//
// With B = 1 or batch, H = 1 or heads, Q = ceil(seqlen_q / block_q) and K = ceil(seqlen_k / block_k):
//
//   kv_num_blocks       i32 [B, H, Q]       how many key blocks a query block sees a part of
//   kv_indices          i32 [B, H, Q, K]    which, in the first places of a row; the rest is not read
//   kv_bits             i32 [B, H, Q, K]    for each of kv_indices, the entry of mask_bits with the part
//   full_kv_num_blocks  i32 [B, H, Q]       how many key blocks a query block sees all of; null: none
//   full_kv_indices     i32 [B, H, Q, K]    which
//   mask_bits           32-bit words [mask_tiles, block_q, block_k / 32]
//
// Key 32 * w + n of a block is seen by its query r where bit n, from the lowest, of word [r][w] is set.
// Blocks may share an entry, as all blocks on the diagonal of a causal mask do. A key block is in a row of at
// most one of the two lists, once. Blocks in neither are not seen, nor are keys past seqlen_k, whatever their
// bits. A row of words has at least 16 bytes, so kernels load it with one instruction.
//
// The backward also takes the transposed lists, q_num_blocks [B, H, K] to full_q_indices [B, H, K, Q]: which
// query blocks see a key block. q_bits names entries of the same mask_bits, whose rows are queries here too.
//
// The extents of mask_bits give block_q and block_k, which are multiples of 128. All tensors are dense.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/argument_checks.hpp>
#include <switchyard/base/alignment.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/operators/index_data.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// The block sizes of masks are multiples of this.
inline constexpr std::int64_t mask_block_unit = 128;
/// And at most this.
inline constexpr std::int64_t max_mask_block = std::int64_t{1} << 20U;

/// Addresses of a block mask, or-ed together.
template <class Arguments>
[[nodiscard, gnu::always_inline]] inline std::uintptr_t block_mask_bits(const Arguments& a) noexcept {
  std::uintptr_t bits = address_bits(a.kv_num_blocks, a.kv_indices, a.kv_bits, a.full_kv_num_blocks,
                                     a.full_kv_indices, a.mask_bits);
  if constexpr (requires { a.q_num_blocks; }) {
    bits |= address_bits(a.q_num_blocks, a.q_indices, a.q_bits, a.full_q_num_blocks, a.full_q_indices);
  }
  return bits;
}

/// Keys of a block of a mask.
template <class Arguments>
[[nodiscard]] constexpr std::int64_t mask_block_k(const Arguments& a) noexcept {
  return std::int64_t{32} * a.mask_words;
}

namespace block_masks {

/// A list of blocks and its name: how many there are, which, and the bits of partial ones.
struct mask_list {
  std::string_view counts_name, indices_name, bits_name;
  const std::int32_t* counts;
  const std::int32_t* indices;
  const std::int32_t* bits;  ///< null for full blocks
  std::int64_t rows;         ///< blocks that have lists
  std::int64_t columns;      ///< blocks that may be in one
  std::string_view of;       ///< what they are
};

template <class Arguments>
[[nodiscard]] auto mask_lists(const Arguments& a) {
  const std::int64_t q = a.mask_query_blocks;
  const std::int64_t k = a.mask_key_blocks;
  const mask_list keys{"kv_num_blocks", "kv_indices", "kv_bits", a.kv_num_blocks,
                       a.kv_indices,    a.kv_bits,    q,         k,
                       "blocks of keys"};
  const mask_list full_keys{"full_kv_num_blocks", "full_kv_indices", {}, a.full_kv_num_blocks,
                            a.full_kv_indices,    nullptr,           q,  k,
                            "blocks of keys"};
  if constexpr (requires { a.q_num_blocks; }) {
    return std::array{keys, full_keys,
                      mask_list{"q_num_blocks", "q_indices", "q_bits", a.q_num_blocks, a.q_indices, a.q_bits,
                                k, q, "blocks of queries"},
                      mask_list{"full_q_num_blocks",
                                "full_q_indices",
                                {},
                                a.full_q_num_blocks,
                                a.full_q_indices,
                                nullptr,
                                k,
                                q,
                                "blocks of queries"}};
  } else {
    return std::array{keys, full_keys};
  }
}

/// An argument that a call with a block mask has, but must not have; empty if there is none.
template <class Arguments>
[[nodiscard]] std::string_view excluded_by_block_mask(const Arguments& a) {
  if (static_cast<std::int32_t>(a.mask) != 0) return "mask";
  if (a.window_left >= 0) return "window_left";
  if (a.window_right >= 0) return "window_right";
  if (is_nonzero(a.soft_cap)) return "soft_cap";
  if (a.bias != nullptr) return "bias";
  if (a.alibi_slopes != nullptr) return "alibi_slopes";
  if (is_nonzero(a.dropout_p)) return "dropout_p";
  if (a.cu_seqlens_q != nullptr) return "cu_seqlens_q";
  if (a.cu_seqlens_k != nullptr) return "cu_seqlens_k";
  if (a.seqused_q != nullptr) return "seqused_q";
  if (a.seqused_k != nullptr) return "seqused_k";
  if constexpr (requires { a.block_table; }) {
    if (a.block_table != nullptr) return "block_table";
    if (a.type_of_kv() != a.dtype) return "kv_dtype f8_e4m3";
  }
  return {};
}

}  // namespace block_masks

/// What is wrong with a block mask, except the numbers in its tensors; empty when nothing is, or there is
/// none.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] std::string wrong_block_mask(const Arguments& a) {
  const std::uintptr_t given = block_mask_bits(a);
  if (given == 0) return {};
  if (given % 4 != 0) return "the tensors of a block mask must be aligned to 4 bytes";
  if (const std::string_view other = block_masks::excluded_by_block_mask(a); !other.empty()) {
    return "a block mask excludes " + std::string{other} + ": put what it masks into the block mask";
  }
  const auto is_block = [](std::int64_t size) {
    return size > 0 && size <= max_mask_block && size % mask_block_unit == 0;
  };
  if (!is_block(a.mask_block_q) || a.mask_words > max_mask_block || !is_block(mask_block_k(a))) {
    return "mask_block_q is " + std::to_string(a.mask_block_q) + " and mask_words " +
           std::to_string(a.mask_words) + ": blocks are multiples of " + std::to_string(mask_block_unit) +
           " queries and of as many keys, 32 a word, and at most " + std::to_string(max_mask_block);
  }
  const auto wrong_blocks = [](std::string_view name, std::int64_t blocks, std::string_view seqlen_name,
                               std::int64_t seqlen, std::int64_t block) -> std::string {
    const std::int64_t wanted = seqlen / block + (seqlen % block > 0 ? 1 : 0);
    if (blocks == wanted) return {};
    return std::string{name} + " is " + std::to_string(blocks) + ", but " + std::string{seqlen_name} + " " +
           std::to_string(seqlen) + " has " + std::to_string(wanted) + " blocks of " + std::to_string(block);
  };
  std::string wrong =
      wrong_blocks("mask_query_blocks", a.mask_query_blocks, "seqlen_q", a.seqlen_q, a.mask_block_q);
  if (wrong.empty())
    wrong = wrong_blocks("mask_key_blocks", a.mask_key_blocks, "seqlen_k", a.seqlen_k, mask_block_k(a));
  if (!wrong.empty()) return wrong;
  if (a.mask_batch != 1 && a.mask_batch != a.batch)
    return "mask_batch must be 1 or batch, not " + std::to_string(a.mask_batch);
  if (a.mask_heads != 1 && a.mask_heads != a.heads)
    return "mask_heads must be 1 or heads, not " + std::to_string(a.mask_heads);
  for (const block_masks::mask_list& list : block_masks::mask_lists(a)) {
    const bool is_full = list.bits_name.empty();
    if (list.rows == 0 || (is_full && !any_given(list.counts, list.indices))) continue;
    if (list.counts == nullptr) return std::string{list.counts_name} + " is missing from the block mask";
    if (list.columns == 0) continue;
    if (list.indices == nullptr) return std::string{list.indices_name} + " is missing from the block mask";
    if (is_full) continue;
    if (list.bits == nullptr) return std::string{list.bits_name} + " is missing from the block mask";
    if (a.mask_bits == nullptr) return "mask_bits is missing from the block mask";
  }
  if (a.mask_tiles < 0) return "mask_tiles must not be negative";
  return {};
}

/// Negative where wrong_block_mask() refuses a call; see mark_misaligned.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] std::int64_t mark_block_mask(const Arguments& a) noexcept {
  return wrong_block_mask(a).empty() ? 0 : -1;
}

/// What is wrong with the numbers in the lists of a block mask, whose shapes are legal; empty when nothing
/// is.
template <class Arguments>
[[nodiscard]] std::string wrong_block_numbers(const Arguments& a) {
  if (a.kv_num_blocks == nullptr || !wrong_block_mask(a).empty()) return {};  // what check() refuses
  std::int64_t most = 0;
  // Lists without entries have counts all the same.
  const auto at_least_one = [](std::int64_t blocks) { return blocks > 0 ? blocks : 1; };
  if (__builtin_mul_overflow(std::int64_t{a.mask_batch} * a.mask_heads, at_least_one(a.mask_query_blocks),
                             &most) ||
      __builtin_mul_overflow(most, at_least_one(a.mask_key_blocks), &most) || most >= reach::farthest) {
    return "mask_batch is " + std::to_string(a.mask_batch) + " and mask_heads " +
           std::to_string(a.mask_heads) + ": no memory reaches as far";
  }
  std::string wrong;
  for (const block_masks::mask_list& list : block_masks::mask_lists(a)) {
    if (list.counts == nullptr) continue;
    const indices::bound blocks{list.of, list.columns};
    for (std::int64_t row = 0; row < std::int64_t{a.mask_batch} * a.mask_heads * list.rows; ++row) {
      const std::int64_t count = list.counts[row];
      if (count < 0 || count > list.columns) {
        return indices::entry(list.counts_name, row, count) + ": it must be at least 0 and at most " +
               std::to_string(list.columns) + ", the number of " + std::string{blocks.what};
      }
      const auto row_name = [row](std::string_view name) {
        return std::string{name} + "[" + std::to_string(row) + "]";
      };
      const std::int64_t first = row * list.columns;
      wrong = indices::wrong_numbers(list.indices_name, list.indices + first, count, blocks);
      if (!wrong.empty()) {
        return indices::wrong_numbers(row_name(list.indices_name), list.indices + first, count, blocks);
      }
      if (list.bits == nullptr) continue;
      const indices::bound tiles{"entries of mask_bits", a.mask_tiles};
      wrong = indices::wrong_numbers(list.bits_name, list.bits + first, count, tiles);
      if (!wrong.empty())
        return indices::wrong_numbers(row_name(list.bits_name), list.bits + first, count, tiles);
    }
  }
  return {};
}

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
