// SPDX-License-Identifier: MIT
// Calls that name their tensors and options at run time, for bindings of other languages. The names are those
// of an operator's `operands`, the tensors that its `call` takes in their order, and of its options:
//
//   static constexpr auto operands = switchyard::fields<&arguments::x, &arguments::out>;
//   static constexpr auto described = switchyard::describe_options(...);
//
// A binding has a reader: has(name), tensor(name), value<Type>(name, otherwise) and weights(name), which
// return what the caller gave. An operator whose calls have several forms chooses by what is given, in a
// function `call_named(reader)`.
#pragma once

#include <string_view>

#include <switchyard/base/member.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

template <class Type>
struct type_of_options;
template <class First, class... Others>
struct type_of_options<option_list<First, Others...>> {
  using type = member_class<First::member>;
};

template <class Operator, class Reader, auto... Operands>
[[nodiscard]] typename Operator::arguments call_operands(Reader& in, field_list<Operands...> /*operands*/);

}  // namespace detail

/// The options that a caller gave; the others have their defaults.
template <class... Options, class Reader>
[[nodiscard]] auto read_options(const option_list<Options...>& /*described*/, Reader& in) {
  typename detail::type_of_options<option_list<Options...>>::type out{};
  const auto read = [&]<class Option>(Option /*of*/) {
    constexpr std::string_view name = detail::member_name<Option::member>();
    if constexpr (Option::is_tensor) {
      out.*Option::member = in.tensor(name);
    } else {
      out.*Option::member = in.value(name, out.*Option::member);
    }
  };
  (read(Options{}), ...);
  return out;
}

/// The arguments of a call. Throws what `call` throws, and the reader.
template <operator_type Operator, class Reader>
[[nodiscard]] typename Operator::arguments call_named(Reader& in) {
  if constexpr (requires { Operator::call_named(in); }) {
    return Operator::call_named(in);
  } else {
    return detail::call_operands<Operator>(in, Operator::operands);
  }
}

namespace detail {

template <class Operator, class Reader, auto... Operands>
[[nodiscard]] typename Operator::arguments call_operands(Reader& in, field_list<Operands...> /*operands*/) {
  const auto with = read_options(Operator::described, in);
  if constexpr (requires { typename Operator::tensors; }) {
    return Operator::call(typename Operator::tensors{in.tensor(member_name<Operands>())...}, with);
  } else {
    return Operator::call(in.tensor(member_name<Operands>())..., with);
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
