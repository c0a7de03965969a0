// SPDX-License-Identifier: MIT
// Calls that name tensors: the arguments of an operator, made from tensors by its description.
//
//   struct axpy {
//     static constexpr std::string_view name = "axpy";
//     struct arguments { float a; const void* x; void* y; std::int64_t n; switchyard::dtype dtype; };
//     using x_view = switchyard::view<&arguments::x, &arguments::dtype, switchyard::dim<&arguments::n>>;
//     using y_view = switchyard::view<&arguments::y, &arguments::dtype, switchyard::dim<&arguments::n>>;
//     static constexpr switchyard::tensor_call<arguments, x_view, y_view> call{name};
//     ...
//   };
//
// axpy::call(x, y, {.a = 3}) gives the arguments. An operator whose calls need more, such as tensors in
// several layouts, has a function that uses bind_views.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <switchyard/base/cpp20.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tensors/bind_views.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

struct any_value {
  template <class Value>
  operator Value() const;  // NOLINT(google-explicit-constructor)
};
template <class Arguments, std::size_t... Index>
[[nodiscard]] constexpr bool takes_values(std::index_sequence<Index...> /*all*/) {
  return requires {
    Arguments{(void(Index), any_value{})...};
  };
}

template <auto Member>
[[nodiscard, gnu::always_inline]] inline auto default_of() noexcept {
  static constexpr member_class<Member> defaults{};
  return defaults.*Member;
}

}  // namespace detail

/// Arguments{}, where `fields` lists all members in order. GCC writes these field by field, and leaves out
/// what is written later; of Arguments{} it would clear or copy the whole first, with a string instruction.
template <class Arguments, auto... Members>
[[nodiscard, gnu::always_inline]] inline Arguments default_arguments(
    detail::field_list<Members...> /*fields*/) noexcept {
  // An array cannot be given by its value.
  if constexpr ((std::is_array_v<detail::member_value<Members>> || ...)) {
    return Arguments{};
  } else {
    static_assert(!detail::takes_values<Arguments>(std::make_index_sequence<sizeof...(Members) + 1>{}),
                  "`fields` must list all members");
    return Arguments{detail::default_of<Members>()...};
  }
}

/// Makes arguments from tensors, in the order of the views, and of what is left: values that no tensor
/// decides. A tensor of one element or more must not be null.
template <class Arguments, class... Views>
struct tensor_call {
  using views_type = views<Views...>;
  std::string_view name;  ///< the operator's

  [[nodiscard, gnu::always_inline]] inline Arguments operator()(const typename Views::tensor_type&... tensors,
                                                                const Arguments& others = {}) const {
    Arguments out = others;
    bind_views(views_type{}, name, out, false, tensors...);
    return out;
  }
};

}  // namespace v0
}  // namespace switchyard
