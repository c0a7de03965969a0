// SPDX-License-Identifier: MIT
// Where a call runs: the device of its tensors, and torch's current stream there.
#pragma once

#include <cstdint>

#include <switchyard/devices/stream.hpp>

#include "stable.hpp"

namespace switchyard_torch {

struct device_stream {
  std::int32_t type = 0;   ///< as torch numbers device types
  std::int32_t index = 0;  ///< of a GPU
  bool is_cpu = true;
  switchyard::stream stream{};

  /// Throws std::runtime_error for a device type that Switchyard has no backend for.
  [[nodiscard]] static device_stream of(const Tensor& tensor);
};

}  // namespace switchyard_torch
