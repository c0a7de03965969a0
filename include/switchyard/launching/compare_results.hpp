// SPDX-License-Identifier: MIT
// Whether two variants computed the same: results of one call, beside each other on the host.
//
// Each may be off by what the tuner allows of the definition, so both by twice that from each other: a unit
// of the type and what f32 arithmetic may lose over 2^20 terms, of the largest magnitude in the element's
// row, or of the tensor's root mean square where that is more. NaN must meet NaN, integers must be equal.
#pragma once

#include <cstddef>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/tensors/result_tensor.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// What differs in words; empty: nothing does. Both have the result's bytes.
[[nodiscard]] std::string describe_difference(const result_tensor& of, const std::byte* one,
                                              const std::byte* other);

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/compare_results_impl.hpp>
#endif
