// SPDX-License-Identifier: MIT
// Why measured rows of a problem's type do not decide it, and which of its type's values they were not
// measured with.
//
// Needs no device. Allocates text; for messages and tools, not for the launch path.
#pragma once

#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// "softmax {dtype=f32 alignment=16}": the type axes of a problem, without flags that are false.
[[nodiscard]] std::string format_type_of(const operator_description& op, problem_view problem);

/// The type axes of a problem whose values the rows of a group were not measured with: "window=false
/// soft_capped=false", as they were measured. Empty: none is known to differ.
[[nodiscard]] std::string format_unmeasured(const operator_description& op,
                                            const std::vector<measured_values>& recorded,
                                            problem_view problem);

/// Why no rows decide a problem: the first group of its type says it.
[[nodiscard]] std::string explain_silence(const selector& from, problem_view problem,
                                          unusable_flags unusable);

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/explain_rows_impl.hpp>
#endif
