// SPDX-License-Identifier: MIT
// The limits of a launch that hold for every device of a backend: drivers refuse what exceeds them, and
// explanations name them without a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>

namespace switchyard {
inline namespace v0 {

/// Workspace buffers start at multiples of this.
inline constexpr std::size_t workspace_alignment = 256;
/// Bytes that one of them can have.
inline constexpr std::int64_t max_buffer_bytes = std::int64_t{1} << 46U;

/// What a buffer of so many bytes takes of a workspace.
[[nodiscard]] constexpr std::size_t padded_buffer(std::int64_t bytes) noexcept {
  return (static_cast<std::size_t>(bytes) + workspace_alignment - 1) / workspace_alignment *
         workspace_alignment;
}

/// Bytes of scratch memory that a block of the host backend can have.
inline constexpr std::uint32_t max_host_scratch_bytes = std::uint32_t{1} << 30U;

/// Blocks in each dimension of a CUDA grid, for every compute capability since 3.0.
inline constexpr dim3 max_cuda_grid{0x7fffffff, 0xffff, 0xffff};

/// Threads that a block can have; 0: the backend sets no limit. A kernel may take fewer.
[[nodiscard]] constexpr std::uint32_t max_block_threads(std::string_view backend) noexcept {
  return backend == "cuda" || backend == "hip" ? 1024 : 0;
}

namespace detail {

/// The message for more scratch memory than the host backend gives.
[[nodiscard]] std::string explain_scratch(std::uint32_t bytes);

/// Counts the blocks of a grid. False where there are more than the host backend can count out.
[[nodiscard]] constexpr bool count_blocks(const dim3& grid, std::uint64_t& count) noexcept {
  constexpr std::uint64_t most = std::uint64_t{1} << 63U;
  count = std::uint64_t{grid.x} * grid.y;  // below 2^64
  return !__builtin_mul_overflow(count, std::uint64_t{grid.z}, &count) && count <= most;
}

[[nodiscard]] constexpr bool fits_cuda(const dim3& grid) noexcept {
  return grid.x <= max_cuda_grid.x && grid.y <= max_cuda_grid.y && grid.z <= max_cuda_grid.z;
}

/// HIP counts the threads of each dimension in 32 bits.
[[nodiscard]] constexpr bool fits_hip(const dim3& grid, const dim3& block) noexcept {
  constexpr std::uint64_t most = 0xffffffff;
  return std::uint64_t{grid.x} * block.x <= most && std::uint64_t{grid.y} * block.y <= most &&
         std::uint64_t{grid.z} * block.z <= most;
}

}  // namespace detail

/// Whether a backend takes a grid of such blocks.
[[nodiscard]] constexpr bool fits_backend(std::string_view backend, const dim3& grid,
                                          const dim3& block) noexcept {
  if (backend == "cuda") return detail::fits_cuda(grid);
  if (backend == "hip") return detail::fits_hip(grid, block);
  std::uint64_t count = 0;
  return detail::count_blocks(grid, count);
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/hardware/launch_limits_impl.hpp>
#endif
