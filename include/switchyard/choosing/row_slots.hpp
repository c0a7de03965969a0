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
    for (std::size_t slot = hash(at) >> 32U & mask;; slot = (slot + 1) & mask) {
      const std::uint32_t entry = slots_[slot];
      if (entry == 0) return no_index;
      bool same = true;
      for (std::size_t i = 0; i < count; ++i) same = same && rows[(entry - 1) * count + i] == at[i];
      if (same) return entry - 1;
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
    put(at, row + 1);
    return true;
  }

 private:
  void put(problem_view at, std::uint32_t entry) noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash(at) >> 32U & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }

  void grow(std::size_t count, const std::int64_t* rows) {
    std::vector<std::uint32_t> old(slots_.empty() ? 16 : slots_.size() * 4);
    old.swap(slots_);
    for (const std::uint32_t entry : old) {
      if (entry != 0) put({rows + (entry - 1) * count, count}, entry);
    }
  }

  std::vector<std::uint32_t> slots_;  // row + 1; 0: free
};

}  // namespace v0
}  // namespace switchyard
