// SPDX-License-Identifier: MIT
// Where a call writes its results, found from its arguments alone, so that the call can be run again with its
// results elsewhere.
//
// It follows from the views of `call`, or of a public list `call_views` where `call` is a function, and from
// those of the options, as far as their tensors are written. An operator whose calls have several forms lists
// these views in
//
//   template <class Visitor>
//   static void visit_results(const arguments& a, Visitor& visit) { visit.template operator()<out_view>(); }
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

/// A tensor that a call writes.
struct result_tensor {
  std::string_view name;
  std::uint32_t field = 0;  ///< offset of its address in the argument struct
  std::byte* address = nullptr;
  switchyard::dtype dtype = switchyard::dtype::f32;
  std::size_t rank = 0;
  std::array<std::int64_t, max_rank> extents{};
  std::array<std::int64_t, max_rank> strides{};  ///< in elements
  std::size_t bytes = 0;                         ///< from the first element to the end of the last one
  /// How far apart right results may be besides, as a share of the largest magnitude in a row: the operator's
  /// `result_tolerance(arguments)`.
  double tolerance = 0;
};

namespace detail {

/// Finds the results of one call.
template <operator_type Operator>
class result_finder {
 public:
  using arguments = typename Operator::arguments;

  explicit result_finder(const arguments& of) : of_{of} {}

  /// Empty, or what is not known.
  [[nodiscard]] std::string find(std::vector<result_tensor>& out) {
    if constexpr (requires { Operator::visit_results(of_, *this); }) {
      Operator::visit_results(of_, *this);
    } else {
      if constexpr (requires { typename Operator::call_views; }) {
        visit_all(typename Operator::call_views{});
      } else if constexpr (requires { Operator::call.name; }) {
        visit_all(typename std::remove_cvref_t<decltype(Operator::call)>::views_type{});
      }
      if constexpr (requires { Operator::described.count; }) {
        Operator::described.for_each([&]<class Option>(std::string_view /*meaning*/) {
          if constexpr (Option::is_tensor) add<typename Option::view>();
        });
      }
    }
    Operator::fields.for_each([&]<auto Member>() { require<Member>(); });
    out = std::move(found_);
    return std::move(unknown_);
  }

  /// Adds a view, unless it is not written, not given, or there already.
  template <class View>
  void operator()() {
    add<View>();
  }

 private:
  template <class... Views>
  void visit_all(views<Views...> /*all*/) {
    (add<Views>(), ...);
  }

  template <auto Member>
  [[nodiscard]] std::uint32_t offset_of() const {
    return static_cast<std::uint32_t>(reinterpret_cast<const std::byte*>(&(of_.*Member)) -
                                      reinterpret_cast<const std::byte*>(&of_));
  }
  [[nodiscard]] bool has(std::uint32_t field) const {
    return std::any_of(found_.begin(), found_.end(),
                       [field](const result_tensor& result) { return result.field == field; });
  }

  /// A field that may be written through must have been found.
  template <auto Member>
  void require() {
    using value = member_value<Member>;
    if constexpr (std::is_pointer_v<value>) {
      if constexpr (!std::is_const_v<std::remove_pointer_t<value>>) {
        if (of_.*Member != nullptr && unknown_.empty() && !has(offset_of<Member>()))
          unknown_ = std::string{member_name<Member>()} + ": its extents are not known";
      }
    }
  }

  template <class View>
  void add() {
    if constexpr (View::is_written) {
      if (of_.*View::pointer == nullptr || has(offset_of<View::pointer>())) return;
      result_tensor out;
      out.name = member_name<View::pointer>();
      out.field = offset_of<View::pointer>();
      out.address = reinterpret_cast<std::byte*>(of_.*View::pointer);
      if constexpr (is_member<View::type>) {
        out.dtype = of_.*View::type;
      } else {
        out.dtype = View::type;
      }
      if (name_of(out.dtype) == "?") return;  // not set
      out.rank = View::rank;
      if constexpr (requires { Operator::result_tolerance(of_); })
        out.tolerance = Operator::result_tolerance(of_);
      bool is_known = true;
      [&]<std::size_t... Dim>(std::index_sequence<Dim...>) {
        ((is_known = is_known && set<View, View::rank - 1 - Dim>(out)), ...);  // strides from the last one on
      }
      (std::make_index_sequence<View::rank>{});
      if (is_known && measure(out)) found_.push_back(out);
    }
  }

  template <class View, std::size_t Dim>
  [[nodiscard]] bool set(result_tensor& out) const {
    using mine = typename View::template dim_at<Dim>;
    if constexpr (!mine::is_argument) {
      return false;
    } else {
      const auto value = static_cast<std::int64_t>(of_.*mine::extent);
      if (value < 0 || __builtin_mul_overflow(value, mine::form.factor, &out.extents[Dim]) ||
          __builtin_add_overflow(out.extents[Dim], mine::form.more, &out.extents[Dim]))
        return false;
      if constexpr (mine::has_stride) {
        out.strides[Dim] = of_.*mine::stride;
        return out.strides[Dim] >= 0 || out.extents[Dim] <= 1;
      } else if constexpr (Dim + 1 == View::rank) {
        out.strides[Dim] = 1;
        return true;
      } else {
        return !__builtin_mul_overflow(out.strides[Dim + 1], out.extents[Dim + 1], &out.strides[Dim]);
      }
    }
  }
  [[nodiscard]] static bool measure(result_tensor& of) {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < of.rank; ++i) {
      if (of.extents[i] <= 1) of.strides[i] = 0;  // it leads nowhere, whatever it is
      std::int64_t along = 0;
      if (of.extents[i] > 0 && (__builtin_mul_overflow(of.extents[i] - 1, of.strides[i], &along) ||
                                __builtin_add_overflow(last, along, &last)))
        return false;
      if (of.extents[i] == 0) return true;  // no bytes
    }
    std::int64_t bytes = 0;
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, size_of(of.dtype), &bytes))
      return false;
    of.bytes = static_cast<std::size_t>(bytes);
    return true;
  }

  const arguments& of_;
  std::vector<result_tensor> found_;
  std::string unknown_;
};

}  // namespace detail

/// The results of a call. Returns what is not known of them in words; empty: all is.
///     std::vector<result_tensor> results;
///     const std::string unknown = find_results<softmax>(call, results);
template <operator_type Operator>
[[nodiscard]] std::string find_results(const typename Operator::arguments& call,
                                       std::vector<result_tensor>& out) {
  return detail::result_finder<Operator>{call}.find(out);
}

}  // namespace v0
}  // namespace switchyard
