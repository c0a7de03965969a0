// SPDX-License-Identifier: MIT
// The variants that a group's rows cannot rank, because they do not serve the type of call that was measured.
// Only calls of another type can be served by them.
//
// A pure function, used when selectors are built, never at a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// The candidates of a type that rows do not compare. `listed`: those that rows have times of.
[[nodiscard]] std::vector<std::uint32_t> find_uncompared(const candidate_set& set,
                                                         const std::vector<axis_value>& type,
                                                         const std::vector<measured_values>& recorded,
                                                         std::span<const std::uint32_t> listed);

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/find_uncompared_impl.hpp>
#endif
