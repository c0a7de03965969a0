// SPDX-License-Identifier: MIT
// Reads a device's properties from the driver: those that expressions use, and those that launches depend on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

struct device_facts {
  device_properties properties;
  int compute_capability = 0;  ///< 90 for 9.0
  int driver_version = 0;      ///< 12040 for 12.4
  std::int64_t shared_bytes_per_block = 0;
  bool cooperative = false;
  bool clusters = false;
  bool programmatic = false;  ///< programmatic dependent launches
};

/// How many of a device's multiprocessors a context may use: a green context, or a client of MPS, has a
/// share. 0 where the driver does not tell.
[[nodiscard, gnu::cold]] inline std::int64_t multiprocessors_of(const api& library, CUctx_st* context) {
  if (context == nullptr) return 0;
  std::int64_t out = 0;
  const auto take = [&out](unsigned count) {
    if (count > 0 && (out == 0 || count < out)) out = count;
  };
  if (library.ctx_get_dev_resource != nullptr) {
    multiprocessor_resource found;
    if (library.ctx_get_dev_resource(context, &found, multiprocessor_resource_type) == result::success)
      take(found.count);
  }
  const context_guard guard{library, context};
  if (guard.status() == result::success && library.ctx_get_exec_affinity != nullptr) {
    multiprocessor_affinity found;
    if (library.ctx_get_exec_affinity(&found, 0) == result::success) take(found.count);
  }
  return out;
}

/// Throws driver_error: unsupported_device without a compute capability, or driver_failed.
[[nodiscard, gnu::cold]] inline device_facts read_facts(const api& library, int ordinal, CUctx_st* context) {
  device_facts out;
  device_properties& properties = out.properties;
  const auto ask = [&library, ordinal](int attribute) -> std::int64_t {
    int value = 0;
    // An attribute that this driver does not know is one that the device does not have.
    return library.device_get_attribute(&value, attribute, ordinal) == result::success ? value : 0;
  };
  std::array<char, 256> name{};
  if (library.device_get_name(name.data(), static_cast<int>(name.size()) - 1, ordinal) == result::success)
    properties.name = name.data();
  require(library, library.driver_get_version(&out.driver_version), properties.name, "cuDriverGetVersion");
  std::size_t memory_bytes = 0;
  require(library, library.device_total_mem(&memory_bytes, ordinal), properties.name, "cuDeviceTotalMem");

  namespace query = device_query;
  out.compute_capability =
      static_cast<int>(10 * ask(query::compute_capability_major) + ask(query::compute_capability_minor));
  if (out.compute_capability < 10) {
    throw driver_error{error_code::unsupported_device,
                       "CUDA device " + std::to_string(ordinal) + " (" + properties.name +
                           ") reports no compute capability, so no kernels can be matched to it"};
  }
  out.cooperative = ask(query::cooperative_launch) != 0;
  out.clusters = ask(query::cluster_launch) != 0;
  out.programmatic = out.compute_capability >= 90;

  properties.backend = "cuda";
  properties.arch = architecture_name(out.compute_capability);
  const std::int64_t share = multiprocessors_of(library, context);
  properties.set("multiprocessors",
                 share > 0 ? std::min(share, ask(query::multiprocessors)) : ask(query::multiprocessors));
  // Both edges of the clock carry data.
  properties.set("memory_bandwidth",
                 ask(query::memory_clock_khz) * 1000 * 2 * ask(query::memory_bus_bits) / 8);
  properties.set("memory_bytes", static_cast<std::int64_t>(memory_bytes));
  properties.set("l2_bytes", ask(query::l2_bytes));
  out.shared_bytes_per_block =
      std::max(ask(query::max_shared_bytes_per_block_optin), ask(query::max_shared_bytes_per_block));
  properties.set("shared_bytes_per_block", out.shared_bytes_per_block);
  properties.set("shared_bytes_per_multiprocessor", ask(query::max_shared_bytes_per_multiprocessor));
  properties.set("registers_per_multiprocessor", ask(query::max_registers_per_multiprocessor));
  properties.set("threads_per_multiprocessor", ask(query::max_threads_per_multiprocessor));
  properties.set("max_threads_per_block", ask(query::max_threads_per_block));
  properties.set("warp_size", ask(query::warp_size));
  properties.set("clock_khz", ask(query::clock_khz));
  properties.set("compute_capability", out.compute_capability);
  properties.set("cluster_launch", out.clusters ? 1 : 0);
  properties.set("cooperative_launch", out.cooperative ? 1 : 0);
  properties.set("tensor_maps", ask(query::tensor_maps));
  properties.set("driver_version", out.driver_version);
  return out;
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
