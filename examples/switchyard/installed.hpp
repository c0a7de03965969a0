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

/// Rules for a device that no kernels are installed for: the variants are those that its tables name. Of
/// their conditions nothing is known. `force`: SWITCHYARD_FORCE's part for the operator. Null where no table
/// names any.
[[nodiscard]] std::shared_ptr<const switchyard::selector> rules_of_tables(
    switchyard::catalog& catalog, const switchyard::operator_description& op,
    const switchyard::device_properties& device, const std::string& force);

/// Why each candidate that may serve a problem cannot be loaded, by index: a blob that is not there, or not
/// the one that its manifest pins. Empty where it can, as far as its files tell.
[[nodiscard]] std::vector<std::string> find_missing_blobs(const switchyard::selector& rules,
                                                          switchyard::problem_view problem);

}  // namespace tool
