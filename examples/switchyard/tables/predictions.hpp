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

/// The rules without what decides past the tables: a forced choice and pins.
[[nodiscard]] switchyard::selector tables_only(const switchyard::selector& rules);

/// What the tables say of one candidate: the outcome of selection were it the only one.
[[nodiscard]] prediction predict(const switchyard::selector& of_tables, std::uint32_t candidate,
                                 switchyard::problem_view problem);

}  // namespace tool
