// SPDX-License-Identifier: MIT
#include "kernels.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/error.hpp>

namespace switchyard_torch {

namespace sy = switchyard;

namespace {

std::mutex roots_mutex;
std::vector<std::string> wheel_roots;  // guarded by roots_mutex

[[nodiscard]] sy::catalog_options options() {
  sy::catalog_options out;
  const std::scoped_lock lock{roots_mutex};
  // Behind SWITCHYARD_PATH, so that it overrides what is installed.
  out.settings.path.insert(out.settings.path.end(), wheel_roots.begin(), wheel_roots.end());
  return out;
}

[[nodiscard]] sy::catalog& open_catalog() {
  static sy::catalog all{options()};
  return all;
}

}  // namespace

sy::catalog& kernels() {
  return open_catalog();
}

sy::device device_of(const device_stream& where) {
  if (where.is_cpu) return sy::device::host();
  try {
    return sy::device{sy::cuda::open(where.index)};
  } catch (const sy::driver_error& problem) {
    if (problem.code() != sy::error_code::driver_absent) throw;
  }
  return sy::device{sy::hip::open(where.index)};
}

}  // namespace switchyard_torch

extern "C" {

/// Adds a folder of kernels and tables. Without effect on calls once one was made.
__attribute__((visibility("default"))) void switchyard_torch_add_root(const char* folder) {
  const std::scoped_lock lock{switchyard_torch::roots_mutex};
  switchyard_torch::wheel_roots.emplace_back(folder);
}

/// Changes when CUDA graphs should be captured again.
__attribute__((visibility("default"))) unsigned long long switchyard_torch_generation() {
  return switchyard_torch::open_catalog().generation();
}

/// Reads files that have changed on disk; 0, or 1 where some could not be used.
__attribute__((visibility("default"))) int switchyard_torch_reload() {
  try {
    return switchyard_torch::open_catalog().reload().refused.empty() ? 0 : 1;
  } catch (const std::exception&) {
    return 1;
  }
}
}
