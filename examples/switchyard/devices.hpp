// SPDX-License-Identifier: MIT
// Devices by name: this machine's, those that tables were measured on, and invented ones.
#pragma once

#include <string>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace tool {

struct known_device {
  switchyard::device_properties properties;
  std::string source;  ///< "this machine", or the path of a table
};

/// The current device first, then the CPU, then each that a table names, once.
[[nodiscard]] std::vector<known_device> known_devices(switchyard::catalog& catalog);

/// Finds a device by its name or a unique part of it, ignoring case, or invents one for "backend:arch". Empty
/// means the current device. `attributes` ("name=value") override known values.
/// Throws usage_error.
[[nodiscard]] known_device require_device(switchyard::catalog& catalog, const std::string& name,
                                          const std::vector<std::string>& attributes);

/// Adds what an architecture's name alone says: compute capability, warp size.
void complete_properties(switchyard::device_properties& device);

}  // namespace tool
