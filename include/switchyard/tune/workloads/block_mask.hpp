// SPDX-License-Identifier: MIT
// Block masks for measuring attention: what documents, windows and prefixes make of 128 x 128 blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// What a request's `mask_kind` is. The diagonal is the last keys'.
enum class block_mask_kind : std::int64_t {
  causal = 0,
  documents = 1,     ///< causal, eight of unequal lengths one after the other
  window = 2,        ///< causal, the last 1024 keys and the first 64, which all see
  prefix = 3,        ///< causal, but that all see the first quarter
  checkerboard = 4,  ///< every other block, whole
  scattered = 5,     ///< causal, of each block three in four keys: none is full
};
inline constexpr std::int64_t block_mask_kinds = 6;

/// A block mask of all sequences and heads.
class block_mask_lists {
 public:
  static constexpr std::int64_t block = 128;

  block_mask_lists(block_mask_kind kind, std::int64_t queries, std::int64_t keys)
      : kind_{kind},
        queries_{queries},
        keys_{keys},
        query_blocks_{(queries + block - 1) / block},
        key_blocks_{(keys + block - 1) / block} {
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    states_.resize(count(query_blocks_ * key_blocks_), hidden);
    for (std::int64_t q = 0; q < query_blocks_; ++q) {
      for (std::int64_t k = 0; k < key_blocks_; ++k) states_[count(q * key_blocks_ + k)] = look_at(q, k);
    }
    if (bits_.empty()) bits_.resize(words_of_block);
  }

  /// Pairs of a query and a key that it sees.
  [[nodiscard]] double pairs() const noexcept { return pairs_; }

  /// Puts the tensors into memory, and tells a call's options of them.
  template <class Options>
  void set(Options& with, tensors& memory) const {
    add(memory, query_blocks_, key_blocks_, false, with.kv_num_blocks, with.kv_indices, &with.kv_bits);
    add(memory, query_blocks_, key_blocks_, false, with.full_kv_num_blocks, with.full_kv_indices, nullptr);
    if constexpr (requires { with.q_num_blocks; }) {
      add(memory, key_blocks_, query_blocks_, true, with.q_num_blocks, with.q_indices, &with.q_bits);
      add(memory, key_blocks_, query_blocks_, true, with.full_q_num_blocks, with.full_q_indices, nullptr);
    }
    with.mask_bits =
        memory.copied(bits_, {static_cast<std::int64_t>(bits_.size() / words_of_block), block, block / 32});
  }

 private:
  static constexpr std::size_t words_of_block = 128 * 4;
  static constexpr std::int32_t hidden = -2;
  static constexpr std::int32_t full = -1;  // else an entry of bits

  [[nodiscard]] bool sees(std::int64_t i, std::int64_t j) const {
    if (kind_ == block_mask_kind::checkerboard) return (i / block + j / block) % 2 == 0;
    const std::int64_t diagonal = i + keys_ - queries_;
    if (kind_ == block_mask_kind::prefix && j < keys_ / 4) return true;
    if (j > diagonal) return kind_ == block_mask_kind::window && j < 64;
    if (kind_ == block_mask_kind::window) return j < 64 || j > diagonal - 1024;
    if (kind_ == block_mask_kind::documents) return document(j) == document(diagonal);
    if (kind_ == block_mask_kind::scattered) return (i + j) % 4 != 0;
    return true;
  }
  /// Of eight documents, whose lengths are as 1 to 8.
  [[nodiscard]] std::int64_t document(std::int64_t at) const {
    std::int64_t n = 0;
    while (n < 7 && at * 36 >= keys_ * (n + 1) * (n + 2) / 2) ++n;
    return n;
  }

  /// The state of a block, whose bits become an entry unless there is one like it.
  [[nodiscard]] std::int32_t look_at(std::int64_t q, std::int64_t k) {
    std::vector<std::int32_t> words(words_of_block, 0);
    std::int64_t seen = 0;
    std::int64_t there = 0;
    for (std::int64_t i = q * block; i < std::min(queries_, (q + 1) * block); ++i) {
      for (std::int64_t j = k * block; j < std::min(keys_, (k + 1) * block); ++j) {
        ++there;
        if (!sees(i, j)) continue;
        ++seen;
        auto& word = words[static_cast<std::size_t>(i % block * 4 + j % block / 32)];
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | 1U << (j % 32));
      }
    }
    pairs_ += static_cast<double>(seen);
    if (seen == 0) return hidden;
    if (seen == there) return full;
    const auto next = static_cast<std::int32_t>(entries_.size());
    const auto [entry, is_new] = entries_.try_emplace(words, next);
    if (is_new) bits_.insert(bits_.end(), words.begin(), words.end());
    return entry->second;
  }

  void add(tensors& memory, std::int64_t rows, std::int64_t columns, bool of_keys, const_tensor& counts,
           const_tensor& indices, const_tensor* bits) const {
    std::vector<std::int32_t> numbers;
    std::vector<std::int32_t> list(static_cast<std::size_t>(rows * columns));
    std::vector<std::int32_t> entries(list.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t count = 0;
      for (std::int64_t n = 0; n < columns; ++n) {
        const std::int32_t state =
            states_[static_cast<std::size_t>(of_keys ? n * key_blocks_ + row : row * key_blocks_ + n)];
        if (state == hidden || (state == full) != (bits == nullptr)) continue;
        const auto at = static_cast<std::size_t>(row * columns + count++);
        list[at] = static_cast<std::int32_t>(n);
        entries[at] = state;
      }
      numbers.push_back(static_cast<std::int32_t>(count));
    }
    counts = memory.copied(numbers, {1, 1, rows});
    indices = memory.copied(list, {1, 1, rows, columns});
    if (bits != nullptr) *bits = memory.copied(entries, {1, 1, rows, columns});
  }

  block_mask_kind kind_;
  std::int64_t queries_;
  std::int64_t keys_;
  std::int64_t query_blocks_;
  std::int64_t key_blocks_;
  double pairs_ = 0;
  std::vector<std::int32_t> states_;
  std::vector<std::int32_t> bits_;
  std::map<std::vector<std::int32_t>, std::int32_t> entries_;
};

/// The mask that a request asks for, in `with`; the pairs that are seen, or -1 where it asks for none.
template <class Options>
[[nodiscard]] double add_block_mask(const request& want, std::int64_t queries, std::int64_t keys,
                                    tensors& memory, Options& with) {
  if (!want.flag("block_masked")) return -1;
  const std::int64_t kind = want.get("mask_kind", 0);
  if (kind < 0 || kind >= block_mask_kinds) {
    throw call_error{error_code::invalid_argument, "mask_kind is " + std::to_string(kind) +
                                                       ": there are 0 (causal), 1 (documents), 2 (window), 3 "
                                                       "(prefix), 4 (checkerboard) and 5 (scattered)"};
  }
  const block_mask_lists lists{static_cast<block_mask_kind>(kind), queries, keys};
  lists.set(with, memory);
  return lists.pairs();
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
