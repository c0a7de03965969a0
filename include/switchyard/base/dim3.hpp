// SPDX-License-Identifier: MIT
// Extents of a launch.
#pragma once

#include <cstdint>

namespace switchyard {
inline namespace v0 {

/// Extent of a grid, a block or a cluster, or an index in one.
struct dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  friend constexpr bool operator==(const dim3&, const dim3&) = default;
};

}  // namespace v0
}  // namespace switchyard
