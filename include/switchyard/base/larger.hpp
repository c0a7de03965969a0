// SPDX-License-Identifier: MIT
// The smaller and the larger of two values. <algorithm> would add 10,000 lines to each file that includes a
// dispatcher.
#pragma once

namespace switchyard {
inline namespace v0 {
namespace detail {

template <class Value>
[[nodiscard]] constexpr Value smaller(Value a, Value b) noexcept {
  return b < a ? b : a;
}
template <class Value>
[[nodiscard]] constexpr Value larger(Value a, Value b) noexcept {
  return a < b ? b : a;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
