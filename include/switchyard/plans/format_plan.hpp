// SPDX-License-Identifier: MIT
// The debug output's line for a plan: what was chosen and why, where its kernels come from, how long it took.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// What making a plan took. Negative where a plan that was made before is launched.
struct plan_cost {
  std::int64_t select_ns = -1;
  std::int64_t load_ns = -1;
};

/// Adds each launch's grid and block to its place in the explanation.
void add_geometry(const plan& made, explanation& why);

[[nodiscard]] std::string format_line(const explanation& why, const plan_cost& cost);

[[nodiscard]] std::string format_json(const explanation& why, const plan_cost& cost);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/plans/format_plan_impl.hpp>
#endif
