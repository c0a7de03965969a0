// SPDX-License-Identifier: MIT
// Random block masks of attention: full, partial and hidden blocks in lists of any order, rows that see
// nothing, entries of bits that blocks share, and numbers that nobody may follow where lists have ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace switchyard::test {

class random_block_mask {
 public:
  random_block_mask() = default;
  /// For the sizes of a call.
  template <class Arguments>
  random_block_mask(const Arguments& a, std::mt19937& random) : is_given_{true}, random_{&random} {
    block_q_ = chance(80) ? 128 : 256;
    words_ = chance(80) ? 4 : 8;
    batch_ = chance(50) ? 1 : a.batch;
    heads_ = chance(50) ? 1 : a.heads;
    query_blocks_ = (a.seqlen_q + block_q_ - 1) / block_q_;
    key_blocks_ = (a.seqlen_k + 32 * words_ - 1) / (32 * words_);
    choose_states();
    make_bits();
    make_lists();
    random_ = nullptr;
  }

  [[nodiscard]] bool is_given() const { return is_given_; }

  /// Writes the mask into a call's arguments, each tensor where `place(vector)` says.
  template <class Arguments, class Place>
  void set(Arguments& a, const Place& place) const {
    if (!is_given_) return;
    a.mask_batch = static_cast<std::int32_t>(batch_);
    a.mask_heads = static_cast<std::int32_t>(heads_);
    a.mask_query_blocks = static_cast<std::int32_t>(query_blocks_);
    a.mask_key_blocks = static_cast<std::int32_t>(key_blocks_);
    a.mask_tiles = static_cast<std::int32_t>(tiles_);
    a.mask_block_q = static_cast<std::int32_t>(block_q_);
    a.mask_words = static_cast<std::int32_t>(words_);
    a.mask_bits = place(bits_);
    a.kv_num_blocks = place(of_queries_.partial_counts);
    a.kv_indices = place(of_queries_.partial);
    a.kv_bits = place(of_queries_.bits);
    if (with_full_) {
      a.full_kv_num_blocks = place(of_queries_.full_counts);
      a.full_kv_indices = place(of_queries_.full);
    }
    if constexpr (requires { a.q_num_blocks; }) {
      a.q_num_blocks = place(of_keys_.partial_counts);
      a.q_indices = place(of_keys_.partial);
      a.q_bits = place(of_keys_.bits);
      if (!with_full_) return;
      a.full_q_num_blocks = place(of_keys_.full_counts);
      a.full_q_indices = place(of_keys_.full);
    }
  }
  template <class Arguments>
  void set(Arguments& a) const {
    set(a, [](const auto& of) { return of.data(); });
  }

  [[nodiscard]] std::string text() const {
    if (!is_given_) return "0";
    return std::to_string(batch_) + "/" + std::to_string(heads_) + " of " + std::to_string(query_blocks_) +
           "x" + std::to_string(key_blocks_) + " blocks of " + std::to_string(block_q_) + "x" +
           std::to_string(32 * words_) + (with_full_ ? ", some full" : "");
  }

 private:
  enum class state : std::uint8_t { hidden, full, partial };
  struct lists {
    std::vector<std::int32_t> full_counts, full, partial_counts, partial, bits;
  };

  [[nodiscard]] std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>{0, end - 1}(*random_);
  }
  [[nodiscard]] bool chance(int percent) { return below(100) < percent; }
  [[nodiscard]] std::size_t at(std::int64_t entry, std::int64_t q, std::int64_t k) const {
    return static_cast<std::size_t>((entry * query_blocks_ + q) * key_blocks_ + k);
  }

  void choose_states() {
    states_.resize(static_cast<std::size_t>(batch_ * heads_ * query_blocks_ * key_blocks_));
    entries_.resize(states_.size());
    const std::int64_t kind = below(6);
    for (std::int64_t entry = 0; entry < batch_ * heads_; ++entry) {
      for (std::int64_t q = 0; q < query_blocks_; ++q) {
        const bool is_blind = kind == 3 && chance(30);
        for (std::int64_t k = 0; k < key_blocks_; ++k) {
          state& of = states_[at(entry, q, k)];
          if (kind == 0) of = state::full;
          if (kind == 1) of = state::partial;
          if (kind == 2) of = (q + k) % 2 == 0 ? state::full : state::hidden;
          if (kind == 3) of = is_blind ? state::hidden : static_cast<state>(below(3));
          if (kind == 4) of = chance(30) ? state::partial : state::hidden;
          if (kind == 5) of = k < q ? state::full : k == q ? state::partial : state::hidden;
          with_full_ = with_full_ || of == state::full;
        }
      }
    }
    with_full_ = with_full_ || chance(50);
  }

  /// Random bits, queries that see nothing of a block, none at all, and all.
  void make_bits() {
    tiles_ = 1 + below(5);
    bits_.resize(static_cast<std::size_t>(tiles_ * block_q_ * words_));
    const std::int64_t density = below(3);
    for (std::size_t row = 0; row * static_cast<std::size_t>(words_) < bits_.size(); ++row) {
      const bool is_blind = chance(20);
      for (std::size_t w = 0; w < static_cast<std::size_t>(words_); ++w) {
        auto word = static_cast<std::uint32_t>((*random_)());
        if (density == 0) word &= static_cast<std::uint32_t>((*random_)());
        if (density == 2) word |= static_cast<std::uint32_t>((*random_)());
        bits_[row * static_cast<std::size_t>(words_) + w] = is_blind ? 0 : word;
      }
    }
    if (chance(20)) std::fill_n(bits_.begin(), block_q_ * words_, 0U);
    for (std::int32_t& entry : entries_) entry = static_cast<std::int32_t>(below(tiles_));
  }

  void make_lists() {
    for (std::int64_t entry = 0; entry < batch_ * heads_; ++entry) {
      for (std::int64_t q = 0; q < query_blocks_; ++q)
        add_row(of_queries_, key_blocks_, [&](std::int64_t k) { return at(entry, q, k); });
      for (std::int64_t k = 0; k < key_blocks_; ++k)
        add_row(of_keys_, query_blocks_, [&](std::int64_t q) { return at(entry, q, k); });
    }
  }
  template <class Place>
  void add_row(lists& to, std::int64_t columns, const Place& place) {
    std::vector<std::int32_t> order;
    for (std::int64_t n = 0; n < columns; ++n) order.push_back(static_cast<std::int32_t>(n));
    if (chance(50)) std::shuffle(order.begin(), order.end(), *random_);
    const auto add = [&](state of, std::vector<std::int32_t>& counts, std::vector<std::int32_t>& list,
                         std::vector<std::int32_t>* bits) {
      const std::size_t first = list.size();
      for (const std::int32_t n : order) {
        if (states_[place(n)] != of) continue;
        list.push_back(n);
        if (bits != nullptr) bits->push_back(entries_[place(n)]);
      }
      counts.push_back(static_cast<std::int32_t>(list.size() - first));
      list.resize(first + static_cast<std::size_t>(columns), 1 << 30);  // nobody may follow these
      if (bits != nullptr) bits->resize(list.size(), 1 << 30);
    };
    add(state::full, to.full_counts, to.full, nullptr);
    add(state::partial, to.partial_counts, to.partial, &to.bits);
  }

  bool is_given_ = false;
  bool with_full_ = false;
  std::int64_t batch_ = 0, heads_ = 0, query_blocks_ = 0, key_blocks_ = 0, tiles_ = 0, block_q_ = 0,
               words_ = 0;
  std::vector<state> states_;
  std::vector<std::int32_t> entries_;
  std::vector<std::uint32_t> bits_;
  lists of_queries_, of_keys_;
  std::mt19937* random_ = nullptr;
};

}  // namespace switchyard::test
