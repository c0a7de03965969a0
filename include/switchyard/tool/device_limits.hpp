// SPDX-License-Identifier: MIT
// The limits of a launch that follow from an architecture's name alone. Sources: NVIDIA, "CUDA C++
// Programming Guide", compute capabilities; AMD, ISA documents of each gfx target.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/hardware/target.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// Most bytes of shared memory that a block can have, static and dynamic together; 0 where there is no limit
/// that is known.
[[nodiscard]] inline std::int64_t max_shared_bytes(const target& of) noexcept {
  constexpr std::int64_t kib = 1024;
  if (of.backend == "hip") return of.arch.starts_with("gfx950") ? 160 * kib : 64 * kib;
  const auto arch = switchyard::detail::parse_cuda_arch(of.arch);
  if (of.backend != "cuda" || !arch || arch->virtual_code) return 0;
  // CUDA itself takes the first KiB of what the hardware has.
  constexpr std::array<std::pair<int, std::int64_t>, 14> known{{{70, 96},
                                                                {72, 96},
                                                                {75, 64},
                                                                {80, 163},
                                                                {86, 99},
                                                                {87, 163},
                                                                {89, 99},
                                                                {90, 227},
                                                                {100, 227},
                                                                {101, 227},
                                                                {103, 227},
                                                                {110, 227},
                                                                {120, 99},
                                                                {121, 99}}};
  for (const auto& [capability, amount] : known) {
    if (capability == arch->major * 10 + arch->minor) return amount * kib;
  }
  return 0;
}

/// Threads of a warp; 32 where a backend has none.
[[nodiscard]] inline std::uint32_t usual_warp_size(const target& of) noexcept {
  return of.backend == "hip" && of.arch.starts_with("gfx9") ? 64 : 32;
}

/// Most threads of a block; 0 where there is no limit.
[[nodiscard]] inline std::int64_t max_threads(const target& of) noexcept {
  return max_block_threads(of.backend);
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
