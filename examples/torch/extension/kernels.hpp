// SPDX-License-Identifier: MIT
// The kernels and tables of this process: one catalog, opened by the first call.
#pragma once

#include <string>

#include <switchyard/devices/device.hpp>
#include <switchyard/dispatcher.hpp>

#include "device_stream.hpp"

namespace switchyard_torch {

/// Opens the catalog once; its roots are SWITCHYARD_PATH, those of the installed wheels, then the usual ones.
[[nodiscard]] switchyard::catalog& kernels();

/// The device of a device stream. Throws driver_error.
[[nodiscard]] switchyard::device device_of(const device_stream& where);

}  // namespace switchyard_torch
