// SPDX-License-Identifier: MIT
// Which arguments of an operator are tensors of indices, and how many numbers each holds, so that checked
// mode can copy them from a device and have check_memory() read the copies:
//
//   static constexpr auto index_tensors = switchyard::index_tensors(
//       switchyard::index_tensor<&arguments::slots>([](const arguments& a) { return a.tokens; }));
//
// A count may follow from the numbers of the tensors before it, which are copies by then. It is 0 where
// check_memory() reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// More numbers than any device holds.
inline constexpr std::int64_t too_many_indices = std::int64_t{1} << 36U;

/// `Count`: a function of the arguments, without state.
template <auto Member, class Count>
struct listed_index_tensor {
  /// Replaces the address by that of a copy. What is wrong with the count; empty when nothing is.
  template <class Arguments>
  [[nodiscard]] static std::string copy(Arguments& a, index_source& from) {
    using number = std::remove_pointer_t<member_value<Member>>;
    static_assert(std::is_integral_v<number> && std::is_const_v<number>, "an index tensor is read");
    const std::int64_t numbers = a.*Member == nullptr ? 0 : Count{}(a);
    if (numbers <= 0) return {};
    const std::string name{member_name<Member>()};
    if (numbers >= too_many_indices)
      return name + " would have " + std::to_string(numbers) + " numbers: no device holds as many";
    a.*Member =
        static_cast<number*>(from.read(a.*Member, static_cast<std::size_t>(numbers) * sizeof(number), name));
    return {};
  }
};

template <class... Tensors>
struct index_tensor_list {
  template <class Arguments>
  [[nodiscard]] static std::string copy(Arguments& a, index_source& from) {
    std::string wrong;
    (void)((wrong = Tensors::copy(a, from), !wrong.empty()) || ...);
    return wrong;
  }

  template <class... Others>
  [[nodiscard]] friend constexpr index_tensor_list<Tensors..., Others...> operator+(
      index_tensor_list /*first*/, index_tensor_list<Others...> /*then*/) {
    return {};
  }
};

}  // namespace detail

/// A tensor of indices. `count` takes the arguments, and captures nothing.
template <auto Member, class Count>
[[nodiscard]] constexpr detail::listed_index_tensor<Member, Count> index_tensor(Count /*count*/) {
  return {};
}

template <class... Tensors>
[[nodiscard]] constexpr detail::index_tensor_list<Tensors...> index_tensors(Tensors... /*each*/) {
  return {};
}

}  // namespace v0
}  // namespace switchyard
