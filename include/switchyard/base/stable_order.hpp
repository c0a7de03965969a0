// SPDX-License-Identifier: MIT
// The order in which a stable sort would put the elements of a container, which stay where they are. One sort
// serves all types: std::stable_sort() compiles 4 to 11 KB for each.
#pragma once

#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Whether one element comes before another, by their indices.
using index_comparison = bool (*)(const void* context, std::uint32_t a, std::uint32_t b);

[[nodiscard]] std::vector<std::uint32_t> stable_order(std::uint32_t count, index_comparison before,
                                                      const void* context);

/// `before` compares two elements. n log n comparisons.
///     for (const std::uint32_t index : stable_order(groups, precedes)) use(groups[index]);
template <class Elements, class Before>
[[nodiscard]] std::vector<std::uint32_t> stable_order(const Elements& elements, const Before& before) {
  struct both {
    const Elements& elements;
    const Before& before;
  };
  const both context{elements, before};
  return stable_order(
      static_cast<std::uint32_t>(elements.size()),
      [](const void* of, std::uint32_t a, std::uint32_t b) -> bool {
        const auto& [ordered, comes_first] = *static_cast<const both*>(of);
        return comes_first(ordered[a], ordered[b]);
      },
      &context);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/base/stable_order_impl.hpp>
#endif
