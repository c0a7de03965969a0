// SPDX-License-Identifier: MIT
// How an operator's struct states its arguments and axes: fields<>, type_axis, flag_axis, size_axis and axes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

template <class Value>
[[nodiscard]] constexpr value_kind kind_of() {
  if constexpr (std::is_pointer_v<Value>) {
    return value_kind::pointer;
  } else if constexpr (std::is_enum_v<Value>) {
    return kind_of<std::underlying_type_t<Value>>();
  } else if constexpr (std::is_floating_point_v<Value>) {
    static_assert(sizeof(Value) == 4 || sizeof(Value) == 8, "an argument is float or double");
    return sizeof(Value) == 4 ? value_kind::f32 : value_kind::f64;
  } else {
    static_assert(std::is_integral_v<Value>,
                  "an argument is a pointer, an integer, an enumeration or a float");
    constexpr bool is_signed = std::is_signed_v<Value>;
    switch (sizeof(Value)) {
      case 1:
        return is_signed ? value_kind::i8 : value_kind::u8;
      case 2:
        return is_signed ? value_kind::i16 : value_kind::u16;
      case 4:
        return is_signed ? value_kind::i32 : value_kind::u32;
      default:
        return is_signed ? value_kind::i64 : value_kind::u64;
    }
  }
}

/// Adds a member's fields to a list: one, or one for each element of an array.
template <auto Member>
constexpr void add_fields(field_description*& to, std::uint32_t offset) {
  using value = member_value<Member>;
  if constexpr (std::is_array_v<value>) {
    static_assert(std::rank_v<value> == 1, "an argument that is an array has one dimension");
    using element = std::remove_extent_t<value>;
    [&to, offset ]<std::size_t... Index>(std::index_sequence<Index...>) {
      ((*to++ = {{element_name<Member, Index>::text.data(), element_name<Member, Index>::text.size()},
                 kind_of<element>(),
                 offset + static_cast<std::uint32_t>(Index * sizeof(element))}),
       ...);
    }
    (std::make_index_sequence<std::extent_v<value>>{});
  } else {
    *to++ = {member_name<Member>(), kind_of<value>(), offset};
  }
}

template <auto... Members>
struct field_list {
  template <class Visitor>
  static constexpr void for_each(Visitor&& visit) {
    (visit.template operator()<Members>(), ...);
  }
  static constexpr std::size_t count = (std::size_t{0} + ... + element_count<member_value<Members>>);
};

template <auto Member>
struct member_axis {
  using value_type = member_value<Member>;
  static constexpr bool is_function = std::is_member_function_pointer_v<decltype(Member)>;
  std::string_view name;
  axis_kind kind;
  [[nodiscard, gnu::always_inline]] constexpr std::int64_t operator()(
      const member_class<Member>& arguments) const noexcept {
    if constexpr (is_function) {
      return static_cast<std::int64_t>((arguments.*Member)());
    } else {
      return static_cast<std::int64_t>(arguments.*Member);
    }
  }
  /// Of a flag: not 0 where it is true.
  [[nodiscard, gnu::always_inline]] constexpr std::uint64_t bits(
      const member_class<Member>& arguments) const noexcept {
    return static_cast<std::uint64_t>((*this)(arguments));
  }
};

template <class Function, class Value>
struct derived_axis {
  static constexpr bool is_truth = std::is_same_v<Value, truth>;
  using value_type = std::conditional_t<is_truth, bool, Value>;
  std::string_view name;
  axis_kind kind;
  Function function;
  template <class Arguments>
  [[nodiscard]] constexpr std::int64_t operator()(const Arguments& arguments) const noexcept {
    const std::uint64_t value = bits(arguments);
    return is_truth ? std::int64_t{value != 0} : static_cast<std::int64_t>(value);
  }
  /// Of a flag: not 0 where it is true.
  template <class Arguments>
  [[nodiscard, gnu::always_inline]] constexpr std::uint64_t bits(const Arguments& arguments) const noexcept {
    if constexpr (is_truth) {
      return function(arguments).bits;
    } else {
      return static_cast<std::uint64_t>(function(arguments));
    }
  }
};

template <class Function>
struct function_traits;
template <class Class, class Result, class Arguments>
struct function_traits<Result (Class::*)(const Arguments&) const noexcept> {
  using result = Result;
};
template <class Function>
using derived_value = typename function_traits<decltype(&Function::operator())>::result;

template <class Value>
constexpr void require_axis_value() {
  static_assert(std::is_integral_v<Value> || std::is_enum_v<Value> || std::is_same_v<Value, truth>,
                "an axis is an integer, a bool or an enumeration: a float would be cut off");
}

}  // namespace detail

/// The arguments that manifests may name, under the names of their members.
template <auto... Members>
inline constexpr detail::field_list<Members...> fields{};

/// A type axis that is an argument, or what a const noexcept member function of the arguments returns.
template <auto Member>
[[nodiscard]] constexpr auto type_axis(std::string_view name = detail::member_name<Member>()) {
  detail::require_axis_value<detail::member_value<Member>>();
  return detail::member_axis<Member>{name, axis_kind::type};
}

/// A size axis that is an argument, or what a const noexcept member function of the arguments returns.
template <auto Member>
[[nodiscard]] constexpr auto size_axis(std::string_view name = detail::member_name<Member>()) {
  detail::require_axis_value<detail::member_value<Member>>();
  return detail::member_axis<Member>{name, axis_kind::size};
}

/// A type axis computed from the arguments by a noexcept lambda; a bool, a truth or an enumeration keeps its
/// names.
template <class Function>
[[nodiscard]] constexpr auto type_axis(std::string_view name, Function function) {
  detail::require_axis_value<detail::derived_value<Function>>();
  return detail::derived_axis<Function, detail::derived_value<Function>>{name, axis_kind::type, function};
}

/// A type axis that is true where a call has an argument: a pointer that is not null, one of several, or a
/// number that is not 0.
template <auto Member, auto... Others>
[[nodiscard]] constexpr auto flag_axis(std::string_view name) {
  return type_axis(name, [](const detail::member_class<Member>& a) noexcept {
    if constexpr (std::is_pointer_v<detail::member_value<Member>>) {
      return given(a.*Member, a.*Others...);
    } else {
      return nonzero(a.*Member, a.*Others...);
    }
  });
}

/// A size axis computed from the arguments by a noexcept lambda.
template <class Function>
[[nodiscard]] constexpr auto size_axis(std::string_view name, Function function) {
  detail::require_axis_value<detail::derived_value<Function>>();
  return detail::derived_axis<Function, detail::derived_value<Function>>{name, axis_kind::size, function};
}

namespace detail {

/// A list of axes of different types. std::tuple asks of each axis how it can be made and converted, which
/// takes long to compile.
template <std::size_t Index, class Axis>
struct indexed_axis {
  Axis axis;
};
template <class Indices, class... Axes>
struct axis_list;
template <std::size_t... Index, class... Axes>
struct axis_list<std::index_sequence<Index...>, Axes...> : indexed_axis<Index, Axes>... {
  static constexpr std::size_t count = sizeof...(Axes);

  /// Calls `visit` with all of them.
  template <class Visitor>
  constexpr decltype(auto) apply(Visitor&& visit) const {
    return visit(static_cast<const indexed_axis<Index, Axes>&>(*this).axis...);
  }
};

template <std::size_t Index, class Axis>
[[nodiscard, gnu::always_inline]] constexpr const Axis& axis_at(
    const indexed_axis<Index, Axis>& list) noexcept {
  return list.axis;
}

}  // namespace detail

/// The axes of an operator, in the order of its problems.
template <class... Axes>
[[nodiscard]] constexpr auto axes(Axes... all) {
  static_assert(sizeof...(Axes) <= max_axes, "an operator has at most 32 axes");
  return detail::axis_list<std::index_sequence_for<Axes...>, Axes...>{{all}...};
}

}  // namespace v0
}  // namespace switchyard
