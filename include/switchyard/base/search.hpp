// SPDX-License-Identifier: MIT
// Searches by a condition, for code that runs seldom. The algorithms of libstdc++ unroll their loops by four
// and compile the condition seven times: each use takes 0.4 KB more, and three times as long to compile.
#pragma once

namespace switchyard {
inline namespace v0 {
namespace detail {

template <class Iterator, class Condition>
[[nodiscard]] Iterator find_if(Iterator first, Iterator last, const Condition& holds) {
  while (first != last && !holds(*first)) ++first;
  return first;
}

template <class Iterator, class Condition>
[[nodiscard]] bool any_of(Iterator first, Iterator last, const Condition& holds) {
  for (; first != last; ++first) {
    if (holds(*first)) return true;
  }
  return false;
}

template <class Iterator, class Condition>
[[nodiscard]] bool all_of(Iterator first, Iterator last, const Condition& holds) {
  for (; first != last; ++first) {
    if (!holds(*first)) return false;
  }
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
