// SPDX-License-Identifier: MIT
// Members of a struct at compile time: their names, types and elements.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <switchyard/base/cpp20.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

// A function of its own, so that the text ends with the member: GCC would expand std::string_view behind it.
template <auto Member>
[[nodiscard]] constexpr const char* signature_of() {
  return __PRETTY_FUNCTION__;
}

template <auto Member>
[[nodiscard]] constexpr std::string_view member_name() {
  // "... [with auto Member = &ns::type::name]" (GCC), "... [Member = &ns::type::name]" (Clang)
  const std::string_view text = signature_of<Member>();
  std::size_t end = text.rfind(']');
  while (end > 0 && text[end - 1] == ')') --end;
  std::size_t begin = end;
  while (begin > 0 && text[begin - 1] != ':' && text[begin - 1] != '&') --begin;
  return text.substr(begin, end - begin);
}

template <class Pointer>
struct member_traits;
template <class Class, class Value>
struct member_traits<Value Class::*> {
  using class_type = Class;
  using value_type = Value;
};
template <class Class, class Value>
struct member_traits<Value (Class::*)() const noexcept> {
  using class_type = Class;
  using value_type = Value;
};
template <auto Member>
using member_value = typename member_traits<decltype(Member)>::value_type;
template <auto Member>
using member_class = typename member_traits<decltype(Member)>::class_type;

/// The elements of an argument: one, where it is no array.
template <class Value>
inline constexpr std::size_t element_count = std::is_array_v<Value> ? std::extent_v<Value> : 1;

/// The text "member[index]".
template <auto Member, std::size_t Index>
struct element_name {
  static constexpr std::array text = [] {
    constexpr std::string_view member = member_name<Member>();
    static_assert(Index < 100, "an argument that is an array has at most 100 elements");
    std::array<char, member.size() + (Index < 10 ? 3 : 4)> out{};
    std::size_t at = 0;
    for (const char character : member) out[at++] = character;
    out[at++] = '[';
    if (Index >= 10) out[at++] = static_cast<char>('0' + Index / 10);
    out[at++] = static_cast<char>('0' + Index % 10);
    out[at] = ']';
    return out;
  }();
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
