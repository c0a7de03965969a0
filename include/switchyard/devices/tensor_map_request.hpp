// SPDX-License-Identifier: MIT
// What a tensor map is encoded from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchyard {
inline namespace v0 {

/// A tensor map (CUtensorMap) to encode: a tiled view of a tensor in device memory, innermost dimension
/// first.
struct tensor_map_request {
  void* address = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t element_type = 0;         ///< as CUtensorMapDataType numbers them
  std::uint32_t swizzle = 0;              ///< as CUtensorMapSwizzle
  std::uint32_t interleave = 0;           ///< as CUtensorMapInterleave
  std::uint32_t l2_promotion = 0;         ///< as CUtensorMapL2promotion
  std::uint32_t out_of_bounds_fill = 0;   ///< as CUtensorMapFloatOOBfill
  std::uint64_t extents[5] = {};          // NOLINT(modernize-avoid-c-arrays): handed to a C API
  std::uint64_t stride_bytes[4] = {};     // NOLINT(modernize-avoid-c-arrays): of dimensions 1 and up
  std::uint32_t box[5] = {};              // NOLINT(modernize-avoid-c-arrays)
  std::uint32_t element_strides[5] = {};  // NOLINT(modernize-avoid-c-arrays)

  friend bool operator==(const tensor_map_request&, const tensor_map_request&) = default;
};

/// Bytes of an encoded tensor map.
inline constexpr std::size_t tensor_map_bytes = 128;

}  // namespace v0
}  // namespace switchyard
