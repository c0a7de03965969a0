// SPDX-License-Identifier: MIT
// What a kernel needs before its first launch of a geometry: limits are checked, and attributes raised.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/properties.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// "kernel 'name' problem", for messages.
[[nodiscard, gnu::cold]] inline std::string launch_text(const api& library, std::string_view problem,
                                                        CUfunc_st* function) {
  const char* name = nullptr;
  if (library.func_get_name == nullptr || library.func_get_name(&name, function) != result::success)
    name = nullptr;
  std::string text = name == nullptr ? std::string{"a kernel"} : "kernel '" + std::string{name} + "'";
  text += ' ';
  text += problem;
  return text;
}

[[nodiscard]] inline int attribute_of(const api& library, const device_facts& facts, CUfunc_st* function,
                                      int attribute) {
  int value = 0;
  require(library, library.func_get_attribute(&value, attribute, function), facts.properties.name,
          launch_text(library, "does not report an attribute", function));
  return value;
}

/// The kernel's context is current. Throws driver_error where the device cannot launch the geometry.
[[gnu::cold]] inline void configure_kernel(const api& library, const device_facts& facts, CUfunc_st* kernel,
                                           const launch_geometry& geometry) {
  const auto refuse = [&](const std::string& problem) {
    throw driver_error{error_code::launch_failed,
                       launch_text(library, problem, kernel) + " on " + facts.properties.name};
  };

  const auto threads = std::uint64_t{geometry.block.x} * geometry.block.y * geometry.block.z;
  const auto max_threads = static_cast<std::uint64_t>(
      attribute_of(library, facts, kernel, function_attribute::max_threads_per_block));
  if (threads > max_threads) {
    refuse("takes at most " + std::to_string(max_threads) + " threads a block, not " +
           std::to_string(threads) + ",");
  }
  if (geometry.cooperative && !facts.cooperative)
    refuse("needs cooperative launches, which the device or its driver does not support");

  const auto blocks = std::uint64_t{geometry.cluster.x} * geometry.cluster.y * geometry.cluster.z;
  if (blocks > 1 && !facts.clusters)
    refuse("needs clusters, which the device or its driver does not support");

  constexpr std::uint64_t portable_cluster = 8;
  if (blocks > portable_cluster) {
    require(library,
            library.func_set_attribute(kernel, function_attribute::non_portable_cluster_size_allowed, 1),
            facts.properties.name,
            launch_text(library, "cannot have clusters of " + std::to_string(blocks) + " blocks", kernel));
  }
  const std::int64_t fixed = attribute_of(library, facts, kernel, function_attribute::shared_bytes);
  if (fixed + geometry.shared_bytes > facts.shared_bytes_per_block) {
    refuse("needs " + std::to_string(fixed) + " + " + std::to_string(geometry.shared_bytes) +
           " bytes of shared memory a block; there are " + std::to_string(facts.shared_bytes_per_block));
  }
  if (std::int64_t{geometry.shared_bytes} >
      attribute_of(library, facts, kernel, function_attribute::max_dynamic_shared_bytes)) {
    require(library,
            library.func_set_attribute(kernel, function_attribute::max_dynamic_shared_bytes,
                                       static_cast<int>(geometry.shared_bytes)),
            facts.properties.name,
            launch_text(
                library,
                "cannot have " + std::to_string(geometry.shared_bytes) + " bytes of shared memory a block",
                kernel));
  }
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
