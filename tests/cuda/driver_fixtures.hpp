// SPDX-License-Identifier: MIT
// Devices of the cuda backend over the fake driver, whose path is in FAKE_CUDA_LIBRARY, and a kernel on them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "fake_cuda.hpp"

namespace fake_cuda {

inline std::vector<std::byte> ptx() {
  const std::string text = ".version 8.0\n.target sm_80\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

/// The fake driver's entry points, some of which a test replaces.
inline std::shared_ptr<sy::cuda::api> entry_points() {
  return std::make_shared<sy::cuda::api>(*sy::cuda::open_library(fake_options()));
}

/// A device in its primary context over such entry points.
inline std::shared_ptr<sy::cuda::driver> device_over(std::shared_ptr<const sy::cuda::api> table,
                                                     int ordinal = 0) {
  return std::make_shared<sy::cuda::driver>(std::move(table), ordinal, primary(ordinal), false);
}

/// A kernel, loaded for as long as this lives.
struct loaded_kernel {
  explicit loaded_kernel(std::shared_ptr<sy::cuda::driver> on = sy::cuda::open(0, fake_options()))
      : device{std::move(on)} {}
  loaded_kernel(const loaded_kernel&) = delete;
  loaded_kernel& operator=(const loaded_kernel&) = delete;
  ~loaded_kernel() { device->unload(module); }

  const std::shared_ptr<sy::cuda::driver> device;
  const sy::module_handle module = device->load(ptx(), "text.ptx");
  const sy::function_handle function = device->find(module, "kernel");
};

}  // namespace fake_cuda
