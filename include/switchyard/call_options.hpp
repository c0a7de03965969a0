// SPDX-License-Identifier: MIT
// The optional inputs of a call, declared in one place. An operator lists its options, each with the argument
// or the tensor that it sets, its legal values, and its meaning:
//
//   struct options { float soft_cap = 0.0F; const_tensor sinks{}; };
//   using sinks_view = switchyard::optional_view<&arguments::sinks, dtype::f32, dim<&arguments::heads>>;
//   static constexpr auto described = switchyard::describe_options(
//       switchyard::option<&options::soft_cap, &arguments::soft_cap, legal_values::magnitude>{"0: none"},
//       switchyard::tensor_option<&options::sinks, sinks_view>{"logits that join the softmax's sum"});
//
// Name, type and default are those of the member. `call` fills the arguments from the list; check() and the
// alignment axis use it to refuse illegal values; bindings read it (named_call.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/argument_checks.hpp>
#include <switchyard/base/alignment.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/tensors/bind_views.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

/// Which values of an option are legal.
enum class legal_values : std::uint8_t {
  any,           ///< or what check() says
  finite,        ///< a float
  magnitude,     ///< a float, finite and not negative
  share,         ///< a float, at least 0 and below 1
  count_or_all,  ///< an integer, -1 for all or more
};

namespace detail {

template <auto Member>
struct member_constant;
template <auto A, auto B>
inline constexpr bool is_same_member = std::is_same_v<member_constant<A>, member_constant<B>>;

/// Negative where a value is illegal; see mark_unless_below.
template <legal_values Rule, class Value>
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_illegal(Value value) noexcept {
  if constexpr (Rule == legal_values::finite) {
    return mark_unless_finite(value);
  } else if constexpr (Rule == legal_values::magnitude) {
    return mark_unless_positive(value);
  } else if constexpr (Rule == legal_values::share) {
    return mark_unless_below(value, 1.0F);
  } else {
    static_assert(Rule == legal_values::count_or_all);
    return std::int64_t{value} + 1;
  }
}

/// What is wrong with a value; empty where nothing is.
template <legal_values Rule, class Value>
[[nodiscard]] std::string wrong_value(std::string_view name, Value value) {
  if (mark_illegal<Rule>(value) >= 0) return {};
  const std::string begin{name};
  if constexpr (Rule == legal_values::finite) {
    return begin + " must be finite: it is " + std::to_string(value);
  } else if constexpr (Rule == legal_values::magnitude) {
    return wrong_magnitude(name, value);
  } else if constexpr (Rule == legal_values::share) {
    return begin + " must be at least 0 and below 1, not " + std::to_string(value);
  } else {
    return begin + " must be -1 or more, not " + std::to_string(value);
  }
}

}  // namespace detail

/// A value. `Argument`: what it is copied to; without one, `call` decides what follows from it.
template <auto Member, auto Argument = nullptr, legal_values Rule = legal_values::any>
struct option {
  using value_type = detail::member_value<Member>;
  static constexpr auto member = Member;
  static constexpr auto argument = Argument;
  static constexpr legal_values rule = Rule;
  static constexpr bool is_tensor = false;
  static constexpr bool is_bound = false;
  std::string_view meaning;

  template <class Arguments>
  [[gnu::always_inline]] inline static void set(Arguments& to,
                                                const detail::member_class<Member>& from) noexcept {
    if constexpr (detail::is_member<Argument>) to.*Argument = from.*Member;
  }
  template <class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::int64_t mark(const Arguments& a) noexcept {
    if constexpr (Rule == legal_values::any) {
      return 0;
    } else {
      return detail::mark_illegal<Rule>(a.*Argument);
    }
  }
  /// Not 0 where a value that a rule is for is not the default.
  template <auto... Besides, class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::uint64_t changed(const Arguments& a) noexcept {
    if constexpr (Rule == legal_values::any || (detail::is_same_member<Argument, Besides> || ...)) {
      return 0;
    } else {
      static constexpr Arguments defaults{};
      std::uint32_t given = 0;
      std::uint32_t usual = 0;
      static_assert(sizeof(a.*Argument) == sizeof given);
      __builtin_memcpy(&given, &(a.*Argument), sizeof given);
      __builtin_memcpy(&usual, &(defaults.*Argument), sizeof usual);
      return given ^ usual;
    }
  }
  template <class Arguments>
  [[nodiscard]] static std::string wrong(const Arguments& a) {
    if constexpr (Rule == legal_values::any) {
      return {};
    } else {
      return detail::wrong_value<Rule>(detail::member_name<Argument>(), a.*Argument);
    }
  }
};

/// A tensor. Not bound: `call` binds it itself, because other tensors follow from it.
template <auto Member, class View, bool IsBound = true>
struct tensor_option {
  using value_type = detail::member_value<Member>;
  using view = View;
  static constexpr auto member = Member;
  static constexpr bool is_tensor = true;
  static constexpr bool is_bound = IsBound;
  std::string_view meaning;

  template <class Arguments>
  [[gnu::always_inline]] inline static void set(Arguments& /*to*/,
                                                const detail::member_class<Member>& /*from*/) noexcept {}
  template <class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::int64_t mark(const Arguments& /*a*/) noexcept {
    return 0;
  }
  template <auto... Besides, class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::uint64_t changed(const Arguments& /*a*/) noexcept {
    return 0;
  }
  template <class Arguments>
  [[nodiscard]] static std::string wrong(const Arguments& /*a*/) {
    return {};
  }
};

namespace detail {

template <class... Options>
struct bound_options {
  template <class... Others>
  [[nodiscard]] friend constexpr bound_options<Options..., Others...> operator+(
      bound_options /*first*/, bound_options<Others...> /*then*/) {
    return {};
  }

  template <class Views, class Arguments, class Given, class... Tensors>
  [[gnu::always_inline]] inline static void bind(Views first, const std::string_view& name,
                                                 Arguments& arguments, bool may_be_null, const Given& with,
                                                 const Tensors&... tensors) {
    bind_views(first + views<typename Options::view...>{}, name, arguments, may_be_null, tensors...,
               with.*Options::member...);
  }
};

}  // namespace detail

/// An operator's options, in the order in which documentation has them.
template <class... Options>
struct option_list {
  static constexpr std::size_t count = sizeof...(Options);
  std::array<std::string_view, count> meanings;

  /// Copies the values that are arguments.
  template <class Arguments, class Given>
  [[gnu::always_inline]] inline static void set(Arguments& to, const Given& from) noexcept {
    (Options::set(to, from), ...);
  }

  /// bind_views of a call's own tensors, then of the options' tensors. The name is a reference because GCC
  /// keeps a copy of it in registers that the tensors need.
  template <class Views, class Arguments, class Given, class... Tensors>
  [[gnu::always_inline]] inline static void bind(Views first, const std::string_view& name,
                                                 Arguments& arguments, bool may_be_null, const Given& with,
                                                 const Tensors&... tensors) {
    bound::bind(first, name, arguments, may_be_null, with, tensors...);
  }

  /// Negative where a value is illegal: for the alignment axis, so that check() sees the call.
  template <class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::int64_t mark(const Arguments& a) noexcept {
    return (Options::mark(a) | ...);
  }

  /// Not 0 if an option with a rule differs from its default. For operators that compute marks only then.
  /// Options in `Besides` are left out: the operator looks at them itself.
  template <auto... Besides, class Arguments>
  [[nodiscard, gnu::always_inline]] inline static std::uint64_t changed(const Arguments& a) noexcept {
    return (Options::template changed<Besides...>(a) | ...);
  }

  /// What is wrong with the values; empty where nothing is.
  template <class Arguments>
  [[nodiscard]] static std::string wrong(const Arguments& a) {
    std::string out;
    (void)((out = Options::wrong(a), !out.empty()) || ...);
    return out;
  }

  /// Calls `visit` for each option, with its type as the template argument and its meaning.
  template <class Visitor>
  constexpr void for_each(Visitor&& visit) const {
    std::size_t index = 0;
    (visit.template operator()<Options>(meanings[index++]), ...);
  }

  template <class... Others>
  [[nodiscard]] friend constexpr option_list<Options..., Others...> operator+(
      const option_list& first, const option_list<Others...>& then) {
    option_list<Options..., Others...> out{};
    for (std::size_t i = 0; i < count; ++i) out.meanings[i] = first.meanings[i];
    for (std::size_t i = 0; i < sizeof...(Others); ++i) out.meanings[count + i] = then.meanings[i];
    return out;
  }

 private:
  template <class Option>
  using bound_of =
      std::conditional_t<Option::is_bound, detail::bound_options<Option>, detail::bound_options<>>;
  using bound = decltype((detail::bound_options<>{} + ... + bound_of<Options>{}));
};

template <class... Options>
[[nodiscard]] constexpr option_list<Options...> describe_options(Options... options) {
  return {{options.meaning...}};
}

}  // namespace v0
}  // namespace switchyard
