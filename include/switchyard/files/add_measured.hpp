// SPDX-License-Identifier: MIT
// Collects the values of type axes for which rows were measured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// Adds the values of a type axis, in the order of the axes.
void add_measured(std::vector<measured_values>& into, std::uint32_t axis,
                  std::span<const std::int64_t> values);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/add_measured_impl.hpp>
#endif
