// SPDX-License-Identifier: MIT
// Lower bounds for the cost of a problem, from its axes: the roofline in `report`.
#pragma once

#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace tool {

struct cost {
  double bytes = 0;  ///< each input read once and each output written once
  double flops = 0;  ///< multiplications and additions of the definition

  [[nodiscard]] bool known() const noexcept { return bytes > 0; }
};

/// Zero for an operator without a formula. Flags and dtypes that rows leave open have their first value.
[[nodiscard]] cost cost_of(const switchyard::operator_description& op, switchyard::problem_view problem);

}  // namespace tool
