// SPDX-License-Identifier: MIT
// A typical device of a target, for checks without a device.
#pragma once

#include <cstdint>
#include <string_view>

#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/instruction_sets.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/tool/device_limits.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// Its attributes, for expressions that read them.
[[nodiscard]] inline device_properties usual_device(const target& on) {
  device_properties out;
  out.backend = on.backend;
  out.arch = on.arch;
  constexpr std::int64_t gib = std::int64_t{1} << 30U;
  const bool is_host = on.backend == "host";
  out.set("multiprocessors", is_host ? 16 : 128);
  out.set("memory_bytes", 64 * gib);
  out.set("memory_bandwidth", 1000 * gib);
  out.set("l2_bytes", gib / 32);
  out.set("shared_bytes_per_block", is_host ? gib : 64 * 1024);
  out.set("shared_bytes_per_multiprocessor", 64 * 1024);
  out.set("registers_per_multiprocessor", 65536);
  out.set("threads_per_multiprocessor", 2048);
  out.set("max_threads_per_block", 1024);
  out.set("warp_size", usual_warp_size(on));
  out.set("clock_khz", 2'000'000);
  out.set("driver_version", 13000);
  for (const std::string_view flag : {"cluster_launch", "cooperative_launch", "tensor_maps"})
    out.set(flag, 1);
  for (const std::string_view set : switchyard::detail::instruction_sets) out.set(set, 1);
  if (const auto arch = switchyard::detail::parse_cuda_arch(on.arch); on.backend == "cuda" && arch)
    out.set("compute_capability", arch->major * 10 + arch->minor);
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
