// SPDX-License-Identifier: MIT
// The grid, block and attributes of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include <switchyard/base/dim3.hpp>

namespace switchyard {
inline namespace v0 {

/// How a kernel is launched.
struct launch_geometry {
  dim3 grid{};
  dim3 block{};
  dim3 cluster{};
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory of a block
  bool cooperative = false;
  bool programmatic_dependent_launch = false;

  /// Whether a launch needs no attributes: nothing but grid, block and shared memory.
  [[nodiscard]] bool is_plain() const noexcept {
    std::uint64_t xy = 0;  // in one comparison each
    std::uint16_t both = 0;
    __builtin_memcpy(&xy, &cluster, sizeof xy);
    __builtin_memcpy(&both, &cooperative, sizeof both);
    return xy == 0x100000001U && cluster.z == 1 && both == 0;
  }
};
static_assert(offsetof(launch_geometry, programmatic_dependent_launch) ==
              offsetof(launch_geometry, cooperative) + 1);

namespace detail {

/// Takes a computed extent of a grid, block or cluster, or bytes of shared memory. False: it is none.
[[nodiscard]] constexpr bool to_extent(std::int64_t value, std::uint32_t& out) noexcept {
  if (value < 0 || value > 0xffffffff) return false;
  out = static_cast<std::uint32_t>(value);
  return true;
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
