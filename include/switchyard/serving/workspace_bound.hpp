// SPDX-License-Identifier: MIT
// Bounds the workspace of all calls whose axes lie in given ranges. The bound covers every variant of the
// manifests, so it holds whichever tables decide, now or later.
#pragma once

#include <cstddef>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/prepare_ranges.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Enough for every variant that may serve a problem of the ranges: a bound, which is exact unless a
/// variant's expressions are too hard to bound. Denials and loads that failed are not counted on, since both
/// may pass. Throws call_error invalid_argument where the ranges cover too many types.
[[nodiscard]] std::size_t bound_workspace(const operator_selectors& rules, const prepared_ranges& ranges);

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/workspace_bound_impl.hpp>
#endif
