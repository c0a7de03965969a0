// SPDX-License-Identifier: MIT
// The bodies of row_index.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/row_index.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION void row_index::nearest(std::span<const float> point, std::uint32_t count,
                                            neighbour_list& out, const void* wanted_next) const noexcept {
  out.count = 0;
  if (rows_.empty() || count == 0) return;
  search_(*this, point.data(), count < max_neighbours ? count : static_cast<std::uint32_t>(max_neighbours),
          reinterpret_cast<std::uintptr_t>(wanted_next), out);
}

SWITCHYARD_FUNCTION void row_index::prefetch_nearest(const float* point) const noexcept {
  if (depth_ <= cached_depth) return;
  std::size_t at = 0;
  while (at < nodes_.size()) {
    const node& here = nodes_[at];
    at = 2 * at + (point[here.axis] - here.value >= 0 ? 2 : 1);
  }
  prefetch(at - nodes_.size());
}

SWITCHYARD_FUNCTION std::uint32_t row_index::max_leaves() const noexcept {
  if (depth_ <= cached_depth) return max_leaf_rows;
  const unsigned deeper = depth_ - cached_depth;
  return deeper <= 2 ? max_leaf_rows : deeper >= 7 ? 3 : max_leaf_rows + 2 - deeper;
}

SWITCHYARD_FUNCTION double row_index::key_of(float squared_distance, std::uint32_t row) noexcept {
  return std::bit_cast<double>((std::uint64_t{std::bit_cast<std::uint32_t>(squared_distance)} << 32U | row) +
                               normal);
}

SWITCHYARD_FUNCTION neighbour row_index::row_of(double key) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(key) - normal;
  return {std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32U)), static_cast<std::uint32_t>(bits)};
}

SWITCHYARD_FUNCTION void row_index::prefetch(std::size_t position) const noexcept {
  constexpr std::size_t line = 16;  // values in a cache line
  const float* const leaf = &leaves_[position * leaf_size()];
  for (std::size_t i = 0; i < leaf_size(); i += line) __builtin_prefetch(leaf + i);
  __builtin_prefetch(leaf + leaf_size() - 1);
}

SWITCHYARD_FUNCTION void row_index::prefetch_found(const search& state, std::uintptr_t entries) noexcept {
  constexpr std::size_t bytes = 8;
  for (std::uint32_t i = 0; i < state.wanted; ++i)
    __builtin_prefetch(reinterpret_cast<const void*>(entries + row_of(state.found[i]).row * bytes));
}

SWITCHYARD_FUNCTION void row_index::nearest_many::insert(double key) noexcept {
  double before = found[0];
  found[0] = key < before ? key : before;
  for (std::uint32_t i = 1; i < wanted; ++i) {
    const double here = found[i];
    const double nearer = key < here ? key : here;
    found[i] = nearer > before ? nearer : before;
    before = here;
  }
}

SWITCHYARD_FUNCTION void row_index::search_narrow(const row_index& of, const float* point,
                                                  std::uint32_t wanted, std::uintptr_t wanted_next,
                                                  neighbour_list& out) noexcept {
  using four = float __attribute__((vector_size(16)));
  using four_doubles = double __attribute__((vector_size(32)));
  of.search_in<four, four_doubles>(point, wanted, wanted_next, out);
}

#if defined(__x86_64__)
SWITCHYARD_FUNCTION void row_index::search_wide(const row_index& of, const float* point, std::uint32_t wanted,
                                                std::uintptr_t wanted_next, neighbour_list& out) noexcept {
  using eight = float __attribute__((vector_size(32)));
  using four_doubles = double __attribute__((vector_size(32)));
  of.search_in<eight, four_doubles>(point, wanted, wanted_next, out);
}
#endif

SWITCHYARD_FUNCTION row_index::searcher row_index::fastest_searcher() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return search_wide;
#endif
  return search_narrow;
}

}  // namespace v0
}  // namespace switchyard
