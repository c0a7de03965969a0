// SPDX-License-Identifier: MIT
// The bodies of problem.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::string format_value(const axis_description& axis, std::int64_t value) {
  if (value >= 0 && static_cast<std::size_t>(value) < axis.value_names.size()) {
    return std::string{axis.value_names[static_cast<std::size_t>(value)]};
  }
  return std::to_string(value);
}

SWITCHYARD_FUNCTION std::string format_problem(const operator_description& op, problem_view problem) {
  std::string out;
  for (std::size_t i = 0; i < op.axes.size() && i < problem.size(); ++i) {
    if (i > 0) out += ' ';
    out += op.axes[i].name;
    out += '=';
    out += format_value(op.axes[i], problem[i]);
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
