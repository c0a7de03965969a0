// SPDX-License-Identifier: MIT
// What a blob says of itself, read without a device: its architecture, and its kernels' parameters and
// limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <switchyard/devices/driver.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// One kernel. What the blob does not say is 0 or nothing.
struct kernel_facts {
  std::string name;
  std::optional<std::vector<parameter_slot>> parameters;
  std::uint32_t max_threads = 0;      ///< of a block, as it was compiled
  std::uint64_t static_shared = 0;    ///< bytes of a block
  std::uint32_t parameter_bytes = 0;  ///< of HIP's argument segment
  std::uint32_t warp_size = 0;
  std::uint32_t abi = 1;  ///< of the description of a host kernel
  bool has_code = true;   ///< whether the description of a host kernel names a function
};

/// What a shared object takes from elsewhere when it is loaded.
struct loading_needs {
  std::vector<std::string> libraries;  ///< in the order in which they are searched
  std::vector<std::string> symbols;    ///< without those that may be missing
};

/// A blob. `problem` says why it cannot be loaded at all; the rest is empty then.
struct blob_facts {
  std::string problem;
  std::string backend;
  std::string arch;       ///< "sm_90", "compute_90", "gfx942", "x86_64"; empty when the blob does not say
  bool is_listed = true;  ///< whether `kernels` are all of its kernels
  std::vector<kernel_facts> kernels;
  loading_needs needs;  ///< of a shared object
};

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
