// Exact lookup of rows by their coordinates: a hash table with open addressing.
//
// It stores row numbers. The coordinates stay with the caller: row r is at [r * axes, (r + 1) * axes) of
// `rows`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

class row_slots {
 public:
  /// The row with these coordinates, or no_index.
  [[nodiscard]] std::uint32_t find(problem_view at, const std::int64_t* rows) const noexcept {
    if (slots_.empty()) return no_index;
    const std::size_t count = at.size();
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t code = hash(at);
    for (std::size_t slot = code >> 32U & mask;; slot = (slot + 1) & mask) {
      const std::uint64_t entry = slots_[slot];
      if (entry == 0) return no_index;
      if ((entry ^ code << 32U) >> 32U != 0) continue;  // most others, without a look at their coordinates
      const auto row = static_cast<std::uint32_t>(entry) - 1;
      bool same = true;
      for (std::size_t i = 0; i < count; ++i) same = same && rows[row * count + i] == at[i];
      if (same) return row;
    }
  }

  /// Prefetches what find() reads first.
  void prefetch(problem_view at) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash(at) >> 32U & (slots_.size() - 1)]);
  }

  /// Adds row `row`, the next one, at these coordinates. False when another row has them.
  [[nodiscard]] bool insert(problem_view at, std::uint32_t row, const std::int64_t* rows) {
    if ((std::size_t{row} + 1) * 2 > slots_.size()) grow(at.size(), rows);
    if (find(at, rows) != no_index) return false;
    put(at, row);
    return true;
  }

 private:
  void put(problem_view at, std::uint32_t row) noexcept {
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t code = hash(at);
    std::size_t slot = code >> 32U & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = code << 32U | (std::uint64_t{row} + 1);
  }

  void grow(std::size_t count, const std::int64_t* rows) {
    std::vector<std::uint64_t> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    for (const std::uint64_t entry : old) {
      const auto row = static_cast<std::uint32_t>(entry) - 1;
      if (entry != 0) put({rows + row * count, count}, row);
    }
  }

  std::vector<std::uint64_t> slots_;  // low half: row + 1; high half: the low half of the hash; 0: free
};

}  // namespace v0
}  // namespace switchyard
