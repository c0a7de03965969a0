// SPDX-License-Identifier: MIT
// Exact lookup of rows by their coordinates: a hash table with open addressing.
//
// It stores row numbers. The coordinates stay with the caller: row r is at [r * axes, (r + 1) * axes) of
// `rows`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/row_index.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

class row_slots {
 public:
  /// The row with these coordinates, or no_index.
  [[nodiscard]] std::uint32_t find(problem_view at, const std::int64_t* rows) const noexcept;

  /// Prefetches what find() reads first.
  void prefetch(problem_view at) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash(at) >> 32U & (slots_.size() - 1)]);
  }

  /// Adds row `row`, the next one, at these coordinates. False when another row has them.
  [[nodiscard]] bool insert(problem_view at, std::uint32_t row, const std::int64_t* rows);

 private:
  void put(problem_view at, std::uint32_t row) noexcept;

  void grow(std::size_t count, const std::int64_t* rows);

  std::vector<std::uint64_t> slots_;  // low half: row + 1; high half: the low half of the hash; 0: free
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/row_slots_impl.hpp>
#endif
