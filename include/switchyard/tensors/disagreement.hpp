// SPDX-License-Identifier: MIT
// Says which tensors of a call disagree, and in which dimension or type. Used only after a check has failed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Values of the arguments that a tensor's extents are.
using extent_values = std::array<std::int64_t, max_rank>;

/// What is wrong with tensors; empty where nothing is. `given` and `values` have one for each view.
[[nodiscard]] std::string disagreement(std::span<const view_description> all,
                                       std::span<const const_tensor> given,
                                       std::span<const extent_values> values, bool may_be_null);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/tensors/disagreement_impl.hpp>
#endif
