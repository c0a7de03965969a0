// SPDX-License-Identifier: MIT
// Compares a manifest's kernel parameters with those that the driver reports.
#pragma once

#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {

/// Throws driver_error parameter_mismatch, naming kernel and parameter, where the two disagree.
void check_parameters(const launch& of, const std::vector<parameter_slot>& found);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/parameters/check_parameters_impl.hpp>
#endif
