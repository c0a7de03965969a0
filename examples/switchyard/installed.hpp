// SPDX-License-Identifier: MIT
// Which of the kernels that may be chosen are installed here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace tool {

/// A selector for a device that no kernels are installed for. Its variants are those that tables name; their
/// conditions are unknown. `force`: SWITCHYARD_FORCE's part for the operator. Null if no table names a
/// variant.
[[nodiscard]] std::shared_ptr<const switchyard::selector> rules_of_tables(
    switchyard::catalog& catalog, const switchyard::operator_description& op,
    const switchyard::device_properties& device, const std::string& force);

/// For each candidate, by index, why it cannot be loaded: its blob is missing or is not the one that the
/// manifest pins. Empty if the files show no obstacle.
[[nodiscard]] std::vector<std::string> find_missing_blobs(const switchyard::selector& rules,
                                                          switchyard::problem_view problem);

}  // namespace tool
