// SPDX-License-Identifier: MIT
// Predicted times of every candidate of a selector, not only the chosen one.
#pragma once

#include <cstdint>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/problem/problem.hpp>

namespace tool {

struct prediction {
  double microseconds = 0;  ///< 0: no table says anything
  switchyard::reason basis = switchyard::reason::none;
};

/// The selector without a forced choice and pins, which override tables.
[[nodiscard]] switchyard::selector tables_only(const switchyard::selector& rules);

/// What tables predict for one candidate: the result of selection if it were the only candidate.
[[nodiscard]] prediction predict(const switchyard::selector& of_tables, std::uint32_t candidate,
                                 switchyard::problem_view problem);

}  // namespace tool
