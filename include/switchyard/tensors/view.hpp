// SPDX-License-Identifier: MIT
// Declares how arguments follow from tensors: for each tensor, an operator names the arguments that receive
// its address, element type, extents and strides. Types for the compiler, and descriptions for messages and
// for callers that know names only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tensor.hpp>

namespace switchyard {
inline namespace v0 {

/// A dimension of a tensor, without its C++ type.
struct dim_description {
  std::string_view extent;  ///< the argument, or a name that tensors share
  std::string_view stride;  ///< the argument; empty: dense
  std::int64_t factor = 1;  ///< the tensor's extent is factor * the argument + more
  std::int64_t more = 0;
  bool may_be_one = false;  ///< an extent of 1 stands for any: its stride becomes 0
  bool is_argument = true;
};

/// A tensor of an operator, without its C++ type.
struct view_description {
  std::string_view name;
  std::string_view dtype_argument;  ///< empty: `type`
  dtype type = dtype::f32;
  bool is_written = false;
  bool is_optional = false;
  std::span<const dim_description> dims;
};

/// The name of an extent that tensors share and that is no argument: `named("pages")`.
template <std::size_t Size>
struct extent_name {
  char text[Size]{};
};
template <std::size_t Size>
[[nodiscard]] consteval extent_name<Size> named(const char (&text)[Size]) {
  extent_name<Size> out;
  for (std::size_t i = 0; i < Size; ++i) out.text[i] = text[i];
  return out;
}

/// In place of a stride: the dimension is dense.
struct dense_stride {};

/// How an extent follows from its argument.
struct dim_form {
  std::int64_t factor = 1;
  std::int64_t more = 0;
  bool may_be_one = false;
};

namespace detail {

template <auto Name>
inline constexpr bool is_member = std::is_member_object_pointer_v<std::remove_cvref_t<decltype(Name)>>;

template <auto Extent>
[[nodiscard]] constexpr std::string_view extent_text() {
  if constexpr (is_member<Extent>) {
    return member_name<Extent>();
  } else {
    return std::string_view{Extent.text};
  }
}

}  // namespace detail

/// One dimension: the extent and the stride are arguments (pointers to members). Instead of the extent
/// `named("...")`, where it is none.
template <auto Extent, auto Stride = dense_stride{}, dim_form Form = dim_form{}>
struct dim {
  static constexpr auto extent = Extent;
  static constexpr auto stride = Stride;
  static constexpr dim_form form = Form;
  static constexpr bool is_argument = detail::is_member<Extent>;
  static constexpr bool has_stride = detail::is_member<Stride>;

  [[nodiscard]] static constexpr dim_description describe() {
    std::string_view stride_name;
    if constexpr (has_stride) stride_name = detail::member_name<Stride>();
    return {detail::extent_text<Extent>(), stride_name, Form.factor, Form.more, Form.may_be_one, is_argument};
  }
};

/// A tensor: the argument with its address, its element type (an argument, or a dtype), its dimensions.
template <auto Pointer, auto Dtype, class... Dims>
struct view {
  static constexpr auto pointer = Pointer;
  static constexpr auto type = Dtype;
  static constexpr bool is_optional = false;
  static constexpr bool is_written = !std::is_const_v<std::remove_pointer_t<detail::member_value<Pointer>>>;
  static constexpr std::size_t rank = sizeof...(Dims);
  template <std::size_t Index>
  using dim_at = std::tuple_element_t<Index, std::tuple<Dims...>>;
  using tensor_type = std::conditional_t<is_written, switchyard::tensor, const_tensor>;

  static constexpr std::array<dim_description, rank> dims{Dims::describe()...};
};

/// A tensor that need not be given.
template <auto Pointer, auto Dtype, class... Dims>
struct optional_view : view<Pointer, Dtype, Dims...> {
  static constexpr bool is_optional = true;
};

namespace detail {

template <class View>
struct optional_of;
template <auto Pointer, auto Dtype, class... Dims>
struct optional_of<view<Pointer, Dtype, Dims...>> {
  using type = optional_view<Pointer, Dtype, Dims...>;
};

}  // namespace detail

/// The same tensor where it need not be given.
template <class View>
using as_optional = typename detail::optional_of<View>::type;

/// Tensors of an operator, in the order in which they decide extents. An optional one decides none: its
/// extents are compared with the arguments.
template <class... Views>
struct views {
  /// These, then others.
  template <class... Others>
  [[nodiscard]] friend constexpr views<Views..., Others...> operator+(views /*first*/,
                                                                      views<Others...> /*then*/) {
    return {};
  }
};

namespace detail {

template <class View>
[[nodiscard]] constexpr view_description describe_view() {
  view_description out{
      member_name<View::pointer>(), {}, dtype::f32, View::is_written, View::is_optional, View::dims};
  if constexpr (is_member<View::type>) {
    out.dtype_argument = member_name<View::type>();
  } else {
    out.type = View::type;
  }
  return out;
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
