// SPDX-License-Identifier: MIT
// The properties of a device, present or not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Names that expressions may read of a device. One that a device does not have is 0 there.
inline constexpr std::array<std::string_view, 24> attribute_names{
    "multiprocessors",
    "memory_bandwidth",  // bytes per second
    "memory_bytes",
    "l2_bytes",
    "shared_bytes_per_block",  // the most one block can ask for
    "shared_bytes_per_multiprocessor",
    "registers_per_multiprocessor",
    "threads_per_multiprocessor",
    "max_threads_per_block",
    "warp_size",
    "clock_khz",
    "compute_capability",  // 90 for sm_90; CUDA only
    "cluster_launch",
    "cooperative_launch",
    "tensor_maps",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "neon",
    "driver_version",
};

/// Values of the attributes above, in their order.
using attribute_values = std::array<std::int64_t, attribute_names.size()>;

/// Index of an attribute; attribute_names.size() for a name that is none.
[[nodiscard]] constexpr std::size_t find_attribute(std::string_view name) noexcept {
  for (std::size_t i = 0; i < attribute_names.size(); ++i) {
    if (attribute_names[i] == name) return i;
  }
  return attribute_names.size();
}

/// Tables name a device by these, and selection compares them.
struct device_properties {
  std::string backend;  ///< "cuda", "hip" or "host"
  std::string arch;     ///< "sm_90", "gfx942", "x86_64"
  std::string name;     ///< as its driver spells it
  attribute_values attributes{};

  /// Value of a named attribute; 0 for one that is not known.
  [[nodiscard]] std::int64_t attribute(std::string_view which) const noexcept;
  void set(std::string_view which, std::int64_t value) noexcept;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/hardware/device_properties_impl.hpp>
#endif
