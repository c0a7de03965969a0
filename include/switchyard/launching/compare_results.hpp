// SPDX-License-Identifier: MIT
// Whether two variants computed the same: compares their results of one call, copied to the host.
//
// There is no reference in f64 here, as the tuner has, and the magnitudes of intermediate values are unknown.
// Each result may therefore be off by four units in the last place of its type, plus what f32 arithmetic may
// lose over 2^20 terms, both relative to the largest magnitude in the element's row or to the tensor's root
// mean square, whichever is larger. Two results may differ by twice that. An operator whose definition allows
// more says how much: see result_tensor::tolerance. NaN must meet NaN, integers must be equal.
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
