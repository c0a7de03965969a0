// SPDX-License-Identifier: MIT
// The bodies of find_exceeded.hpp.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/find_exceeded.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::string find_exceeded(const choice_limits& limits, const variant& of) {
  if (of.max_error > limits.max_error) {
    return "may be off by " + text::number(of.max_error) + " of the tolerance, more than the limit of " +
           text::number(limits.max_error);
  }
  if (limits.reproducible.empty() || limits.reproducible == of.reproducible) return {};
  return "is not in the reproducible class '" + limits.reproducible + "'" +
         (of.reproducible.empty() ? "" : " but in '" + of.reproducible + "'");
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
