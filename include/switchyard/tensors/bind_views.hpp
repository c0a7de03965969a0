// SPDX-License-Identifier: MIT
// Fills the arguments of a call from its tensors. The first tensor that has an extent sets it; every call
// checks that the others agree. A dim without a stride argument must be dense.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensors/disagreement.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

template <class Dim, class Arguments>
[[nodiscard]] dim_place place_of_dim(Arguments& arguments) noexcept {
  dim_place out;
  if constexpr (Dim::is_argument) {
    out.extent = &(arguments.*Dim::extent);
    out.extent_bytes = sizeof(arguments.*Dim::extent);
    static_assert(sizeof(arguments.*Dim::extent) == 4 || sizeof(arguments.*Dim::extent) == 8);
  }
  if constexpr (Dim::has_stride) out.stride = &(arguments.*Dim::stride);
  return out;
}

template <class View, class Arguments>
[[nodiscard]] view_place place_of(Arguments& arguments) noexcept {
  view_place out;
  out.pointer = &(arguments.*View::pointer);
  if constexpr (is_member<View::type>) out.type = &(arguments.*View::type);
  [&]<std::size_t... Dim>(std::index_sequence<Dim...>) {
    ((out.dims[Dim] = place_of_dim<typename View::template dim_at<Dim>>(arguments)), ...);
  }
  (std::make_index_sequence<View::rank>{});
  return out;
}

/// The tensors of a call, in the order of its views. std::tie asks of each how it can be converted,
/// which takes long to compile.
template <std::size_t Index, class Tensor>
struct indexed_tensor {
  const Tensor& tensor;
};
template <class Indices, class... Tensors>
struct tensor_list;
template <std::size_t... Index, class... Tensors>
struct tensor_list<std::index_sequence<Index...>, Tensors...> : indexed_tensor<Index, Tensors>... {};

template <std::size_t Index, class Tensor>
[[nodiscard, gnu::always_inline]] constexpr const Tensor& tensor_at(
    const indexed_tensor<Index, Tensor>& list) noexcept {
  return list.tensor;
}

/// Writes what views describe into arguments; each function returns whether the tensors agree so far. A
/// comparison with a branch takes two instructions, and nothing is kept for a later comparison.
template <class Arguments, class... Views>
struct view_binder {
  static constexpr std::size_t count = sizeof...(Views);
  static constexpr std::array<view_description, count> all{describe_view<Views>()...};
  template <std::size_t View>
  using view_at = std::tuple_element_t<View, std::tuple<Views...>>;

  struct place {
    std::size_t view;
    std::size_t dim;
  };

  /// Where an extent is met first.
  [[nodiscard]] static constexpr place first_of(std::string_view extent) {
    for (std::size_t i = 0;; ++i) {
      for (std::size_t d = 0; d < all[i].dims.size(); ++d) {
        if (all[i].dims[d].extent == extent) return {i, d};
      }
    }
  }
  /// The first view whose element type is the same argument.
  [[nodiscard]] static constexpr std::size_t first_of_type(std::size_t view) {
    std::size_t i = 0;
    while (all[i].dtype_argument != all[view].dtype_argument) ++i;
    return i;
  }
  [[nodiscard]] static constexpr bool has_stride_before(std::size_t view, std::string_view stride) {
    for (std::size_t i = 0; i < view; ++i) {
      for (const dim_description& dimension : all[i].dims) {
        if (dimension.stride == stride) return true;
      }
    }
    return false;
  }

  Arguments& arguments;

  template <std::size_t View, std::size_t Dim, class Tensors>
  [[nodiscard, gnu::always_inline]] inline bool bind_dim(const Tensors& tensors) {
    using mine = typename view_at<View>::template dim_at<Dim>;
    constexpr place first = first_of(all[View].dims[Dim].extent);
    constexpr bool decides = first.view == View && first.dim == Dim && !view_at<View>::is_optional;
    const const_tensor& tensor = tensor_at<View>(tensors);
    const std::int64_t extent = tensor.extent(Dim);
    const bool is_shared = mine::form.may_be_one && extent == 1;
    bool agrees = true;
    if constexpr (mine::has_stride) {
      const std::int64_t stride = is_shared ? 0 : tensor.stride(Dim);
      if constexpr (has_stride_before(View, all[View].dims[Dim].stride)) {
        agrees = arguments.*mine::stride == stride;  // two tensors with one stride, both given
      } else {
        arguments.*mine::stride = stride;
      }
    }
    if constexpr (decides) {
      static_assert(mine::form.factor == 1, "the first tensor with an extent has it itself");
      if constexpr (mine::is_argument) {
        static_assert(mine::form.more >= 0);
        std::int64_t value = extent;
        if (__builtin_sub_overflow(extent, mine::form.more, &value)) value = extent;  // negative: refused
        using argument = member_value<mine::extent>;
        arguments.*mine::extent = static_cast<argument>(value);
        if constexpr (sizeof(argument) < sizeof value) {
          if (arguments.*mine::extent != value) [[unlikely]]
            return false;
        }
      }
    } else {
      std::int64_t value = 0;
      if constexpr (mine::is_argument) {
        value = static_cast<std::int64_t>(arguments.*mine::extent);  // an optional one may be met first
      } else {
        value = tensor_at<first.view>(tensors).extent(first.dim);
      }
      std::int64_t wanted = 0;
      if (__builtin_mul_overflow(mine::form.factor, value, &wanted) ||
          __builtin_add_overflow(wanted, mine::form.more, &wanted)) [[unlikely]]
        return is_shared;
      if (extent != wanted && !is_shared) [[unlikely]]
        return false;
    }
    if constexpr (mine::has_stride) {
      return agrees;
    } else if constexpr (Dim + 1 == view_at<View>::rank) {
      return tensor.stride(Dim) == 1;
    } else {
      std::int64_t dense = 0;
      return !__builtin_mul_overflow(tensor.stride(Dim + 1), tensor.extent(Dim + 1), &dense) &&
             tensor.stride(Dim) == dense;
    }
  }

  /// The first tensor that is given decides an element type.
  template <std::size_t View, class Tensors, std::size_t... Before>
  [[nodiscard, gnu::always_inline]] inline bool bind_type(const Tensors& tensors,
                                                          std::index_sequence<Before...> /*before*/) {
    const dtype type = tensor_at<View>(tensors).dtype();
    bool is_met = false;
    dtype wanted = type;
    [[maybe_unused]] const auto look = [&]<std::size_t Each>(std::index_sequence<Each> /*index*/)
        __attribute__((always_inline)) {
      if constexpr (all[Each].dtype_argument == all[View].dtype_argument) {
        if (is_met || (view_at<Each>::is_optional && !tensor_at<Each>(tensors))) return;
        is_met = true;
        wanted = tensor_at<Each>(tensors).dtype();
      }
    };
    (look(std::index_sequence<Before>{}), ...);
    arguments.*view_at<View>::type = wanted;
    return type == wanted;
  }

  template <std::size_t View, class Tensors>
  [[nodiscard, gnu::always_inline]] inline bool bind_view(const Tensors& tensors, bool may_be_null) {
    using mine = view_at<View>;
    using pointer = member_value<mine::pointer>;
    const const_tensor& tensor = tensor_at<View>(tensors);
    // A view that is written takes a `tensor`, which was made from a pointer to what may be written.
    arguments.*mine::pointer = static_cast<pointer>(
        const_cast<void*>(tensor.data()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    if constexpr (mine::is_optional) {
      if (!tensor) return true;
    } else if (!may_be_null && !tensor) [[unlikely]] {
      return false;
    }
    constexpr std::size_t typed = first_of_type(View);
    if constexpr (!is_member<mine::type>) {
      if (!tensor.has(mine::type, mine::rank)) [[unlikely]]
        return false;
    } else if constexpr (typed != View && view_at<typed>::rank == mine::rank &&
                         !view_at<typed>::is_optional) {
      if (!tensor.is_like(tensor_at<typed>(tensors))) [[unlikely]]  // which has decided the type
        return false;
    } else {
      if (tensor.rank() != mine::rank) [[unlikely]]
        return false;
      if (!bind_type<View>(tensors, std::make_index_sequence<View>{})) [[unlikely]]
        return false;
    }
    return [&]<std::size_t... Dim>(std::index_sequence<Dim...>) __attribute__((always_inline)) {
      return (bind_dim<View, Dim>(tensors) && ...);
    }
    (std::make_index_sequence<mine::rank>{});
  }

  template <class Tensors>
  [[nodiscard, gnu::always_inline]] inline bool bind(const Tensors& tensors, bool may_be_null) {
    return [&]<std::size_t... View>(std::index_sequence<View...>) __attribute__((always_inline)) {
      return (bind_view<View>(tensors, may_be_null) && ...);
    }
    (std::make_index_sequence<count>{});
  }
};

/// Throws where tensors disagree. They may not, as the stride of an extent of 1 does not matter: then all is
/// bound.
template <class Arguments, class... Views>
[[gnu::cold, gnu::noinline]] void require_agreement(std::string_view name, Arguments& arguments,
                                                    bool may_be_null,
                                                    const std::array<const_tensor, sizeof...(Views)>& given) {
  const std::array<view_place, sizeof...(Views)> places{place_of<Views>(arguments)...};
  const std::string wrong =
      bind_and_compare(view_binder<Arguments, Views...>::all, places, given, may_be_null);
  if (!wrong.empty()) throw call_error{error_code::invalid_argument, std::string{name} + ": " + wrong};
}

}  // namespace detail

/// Writes what tensors say into arguments, one tensor for each view. Throws call_error where they disagree.
template <class Arguments, class... Views>
[[gnu::always_inline]] inline void bind_views(views<Views...> /*of*/, std::string_view name,
                                              Arguments& arguments, bool may_be_null,
                                              const typename Views::tensor_type&... tensors) {
  using tensor_list = detail::tensor_list<std::index_sequence_for<Views...>, typename Views::tensor_type...>;
  if (!detail::view_binder<Arguments, Views...>{arguments}.bind(tensor_list{{tensors}...}, may_be_null))
      [[unlikely]] {
    // Copies, made here only: tensors whose addresses are never taken stay in registers. What lies in memory
    // is read again, else GCC would read all of it ahead of the comparisons.
    asm volatile("" ::: "memory");  // NOLINT(hicpp-no-assembler)
    detail::require_agreement<Arguments, Views...>(name, arguments, may_be_null, {tensors.copy()...});
  }
}

}  // namespace v0
}  // namespace switchyard
