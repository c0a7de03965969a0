// SPDX-License-Identifier: MIT
// The limits of tensor maps, as far as a manifest decides them. Source: NVIDIA, CUDA driver API,
// cuTensorMapEncodeTiled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// Why the hardware cannot have such a tensor map; empty when nothing is against it. `value(expression)` is
/// an optional integer: what is not known is not judged.
template <class Value>
[[nodiscard]] std::string tensor_map_problem(const tensor_map_recipe& map, const Value& value) {
  constexpr std::array<std::int64_t, 12> element_bytes{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
  constexpr std::array<std::int64_t, 4> swizzle_bytes{0, 32, 64, 128};
  constexpr std::int64_t max_box = 256;
  constexpr std::int64_t max_element_stride = 8;
  constexpr std::int64_t alignment = 16;
  const bool interleaved = map.interleave != 0;
  if (interleaved && map.box.size() < 3) return "an interleaved layout has 3 to 5 dimensions";
  if (map.interleave == 2 && map.swizzle != 1) return "interleave 32B needs swizzle 32B";
  for (std::size_t i = 0; i < map.box.size(); ++i) {
    const std::optional<std::int64_t> extent = value(map.box[i]);
    if (extent && (*extent < 1 || *extent > max_box)) {
      return "box has an extent of " + std::to_string(*extent) + "; the hardware copies 1 to " +
             std::to_string(max_box) + " elements in a dimension";
    }
    const std::optional<std::int64_t> step =
        map.element_strides.empty() ? std::optional<std::int64_t>{1} : value(map.element_strides[i]);
    if (step && (*step < 1 || *step > max_element_stride)) {
      return "element_strides has " + std::to_string(*step) + "; the hardware takes 1 to " +
             std::to_string(max_element_stride);
    }
  }
  const std::optional<std::int64_t> inner = map.box.empty() ? std::nullopt : value(map.box.front());
  if (inner && !interleaved && map.element_type < element_bytes.size()) {
    const std::int64_t bytes = *inner * element_bytes[map.element_type];
    if (bytes % alignment != 0)
      return "the box is " + std::to_string(bytes) + " bytes wide; it must be a multiple of 16";
    const std::int64_t most = swizzle_bytes[map.swizzle % swizzle_bytes.size()];
    if (most != 0 && bytes > most) {
      return "the box is " + std::to_string(bytes) + " bytes wide; swizzle " + std::to_string(most) +
             "B takes at most " + std::to_string(most);
    }
  }
  for (const expression& bytes : map.stride_bytes) {
    const std::optional<std::int64_t> stride = value(bytes);
    if (stride && *stride % alignment != 0)
      return "a stride of " + std::to_string(*stride) + " bytes is not a multiple of 16";
  }
  return {};
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
