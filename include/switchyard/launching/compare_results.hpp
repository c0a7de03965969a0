// SPDX-License-Identifier: MIT
// Whether two variants computed the same: results of one call, beside each other on the host.
//
// The tuner's bounds are of the definition, in f64; here is none, and the operators' magnitudes between are
// not known. So each may be off by four units of the type and by what f32 arithmetic may lose over 2^20
// terms, of the largest magnitude in the element's row or the tensor's root mean square, whichever is more,
// and both by twice that from each other. An operator whose definition leaves more open says how much: see
// result_tensor::tolerance. NaN must meet NaN, integers must be equal.
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
