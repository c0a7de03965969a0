// SPDX-License-Identifier: MIT
// The bodies of row_slots.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/row_slots.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::uint32_t row_slots::find(problem_view at, const std::int64_t* rows) const noexcept {
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

SWITCHYARD_FUNCTION bool row_slots::insert(problem_view at, std::uint32_t row, const std::int64_t* rows) {
  if ((std::size_t{row} + 1) * 2 > slots_.size()) grow(at.size(), rows);
  if (find(at, rows) != no_index) return false;
  put(at, row);
  return true;
}

SWITCHYARD_FUNCTION void row_slots::put(problem_view at, std::uint32_t row) noexcept {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t code = hash(at);
  std::size_t slot = code >> 32U & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = code << 32U | (std::uint64_t{row} + 1);
}

SWITCHYARD_FUNCTION void row_slots::grow(std::size_t count, const std::int64_t* rows) {
  std::vector<std::uint64_t> old(slots_.empty() ? 16 : slots_.size() * 2);
  old.swap(slots_);
  for (const std::uint64_t entry : old) {
    const auto row = static_cast<std::uint32_t>(entry) - 1;
    if (entry != 0) put({rows + row * count, count}, row);
  }
}

}  // namespace v0
}  // namespace switchyard
