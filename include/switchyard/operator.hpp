// SPDX-License-Identifier: MIT
// What an operator is: a C++ struct with an argument struct, the arguments that kernels may name, and the
// axes that a choice depends on. Everything else in the library sees only the erased operator_description.
//
//   struct axpy {
//     static constexpr std::string_view name = "axpy";
//     struct arguments { float a; const float* x; float* y; std::int64_t n; };
//     static constexpr auto fields =
//         switchyard::fields<&arguments::a, &arguments::x, &arguments::y, &arguments::n>;
//     static constexpr auto axes = switchyard::axes(switchyard::size_axis<&arguments::n>());
//   };
//
// An operator may also have `static std::string check(const arguments&)`, which returns what is wrong with a
// call, or an empty string. It runs only when a problem is new, so whatever it rejects must change an axis:
// pointers that must not be null or must be aligned, and values that must be in a range, need a derived axis
// (see alignment_of, mark_misaligned and mark_unless_below). An illegal call then never has the problem of a
// legal one.
//
// An operator may have `static std::string check_memory(const arguments&)` as well, which returns what is
// wrong with the memory that the arguments point to, such as the numbers in tensors of indices. It runs
// before every launch on the CPU, where memory can be read, and never for a GPU. Whatever the arguments are,
// it must not overflow, and must not read outside the tensors.
//
// Checked mode calls it for a GPU as well, with host copies of the tensors that `static constexpr auto
// index_tensors` lists (index_tensors.hpp). On every device, checked mode also calls `static std::string
// check_indices(const arguments&)` if there is one: for numbers that are legal, but a mistake in most
// programs.
//
// These functions, and `call`, may be templates that need no argument, with `template <class = void>`: a
// program then compiles only those that it uses.
//
// An argument may be a small array, as `float w[3]`: its elements are the arguments `w[0]` to `w[2]`.
// Tensors as fields, and a call that takes them, are described in tensor_call.hpp.
//
// If an axis or an argument was renamed, `static constexpr std::array formerly{former_name{"length", "n"}}`
// keeps older files readable. If a type axis was added, `static constexpr std::array implied{...}` says what
// files mean that do not name it: with `implied_axis{"kv_dtype", "dtype"}`, that kv_dtype equals dtype; with
// `implied_axis{"with_dlse", implied_axis::no}`, that variants serve only calls where it is false. `static
// constexpr std::array axis_defaults{axis_default{"heads_kv", "=heads"}}` gives the values that the tool
// assumes for axes missing from its command line.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <switchyard/argument_checks.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/operator_axes.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

// clang-format off
/// Satisfied by a struct with `name`, `arguments`, `fields` and `axes`, as above.
template <class Operator>
concept operator_type = std::default_initializable<typename Operator::arguments> &&
    std::is_trivially_copyable_v<typename Operator::arguments> && requires {
      { Operator::name } -> std::convertible_to<std::string_view>;
      Operator::fields.count;
      Operator::axes.count;
    };
// clang-format on

template <operator_type Operator>
inline constexpr std::size_t axis_count = Operator::axes.count;

/// All axis values of one call, in the order of the operator's axes.
template <operator_type Operator>
using problem_of = std::array<std::int64_t, axis_count<Operator>>;

template <operator_type Operator>
[[nodiscard]] constexpr problem_of<Operator> make_problem(
    const typename Operator::arguments& arguments) noexcept {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return problem_of<Operator>{detail::axis_at<Index>(Operator::axes)(arguments)...};
  }
  (std::make_index_sequence<axis_count<Operator>>{});
}

namespace detail {

/// Whether an axis or an argument of the operator has this name.
template <operator_type Operator>
[[nodiscard]] constexpr bool has_name(std::string_view name) {
  bool found = Operator::axes.apply([name](const auto&... axis) { return ((axis.name == name) || ...); });
  Operator::fields.for_each([&]<auto Member>() { found = found || member_name<Member>() == name; });
  return found;
}

/// Whether every former name is free again, and what it became exists.
template <operator_type Operator>
[[nodiscard]] constexpr bool former_names_are_sound() {
  for (const former_name& renamed : Operator::formerly) {
    if (has_name<Operator>(renamed.former) || !has_name<Operator>(renamed.name)) return false;
  }
  return true;
}

/// Whether every pair of `implied` names two type axes, or one that is a truth and `no`.
template <operator_type Operator>
[[nodiscard]] constexpr bool implied_axes_are_sound() {
  const auto is_type = [](std::string_view name, bool is_truth = false) {
    return Operator::axes.apply([name, is_truth]<class... Axes>(const Axes&... axis) {
      return ((axis.name == name && axis.kind == axis_kind::type &&
               (!is_truth || std::is_same_v<typename Axes::value_type, bool>)) ||
              ...);
    });
  };
  for (const implied_axis& implied : Operator::implied) {
    const bool is_no = implied.like == implied_axis::no;
    if (!is_type(implied.axis, is_no) || (!is_no && !is_type(implied.like))) return false;
  }
  return true;
}

}  // namespace detail

/// The erased description of an operator.
template <operator_type Operator>
[[nodiscard]] const operator_description& describe() {
  struct storage {
    std::array<axis_description, axis_count<Operator>> axes;
    std::array<field_description, Operator::fields.count> fields;
    operator_description description;
    storage() {
      std::size_t index = 0;
      const auto add_axis = [&]<class Axis>(const Axis& axis) {
        axes[index++] = {axis.name, axis.kind, enumerator_names<typename Axis::value_type>,
                         std::is_same_v<typename Axis::value_type, bool>};
      };
      Operator::axes.apply([&](const auto&... axis) { (add_axis(axis), ...); });
      field_description* next = fields.data();
      const typename Operator::arguments probe{};
      Operator::fields.for_each([&]<auto Member>() {
        const auto* base = reinterpret_cast<const std::byte*>(&probe);
        const auto* member = reinterpret_cast<const std::byte*>(&(probe.*Member));
        detail::add_fields<Member>(next, static_cast<std::uint32_t>(member - base));
      });
      description = {Operator::name, axes, fields, sizeof(typename Operator::arguments), {}, 0, nullptr, {}};
      if constexpr (requires { Operator::formerly; }) {
        static_assert(detail::former_names_are_sound<Operator>(),
                      "`formerly` maps a name that no axis and no argument has to one that exists");
        description.formerly = Operator::formerly;
      }
      if constexpr (requires { Operator::implied; }) {
        static_assert(detail::implied_axes_are_sound<Operator>(),
                      "`implied` names type axes in pairs, or a truth and `no`");
        description.implied = Operator::implied;
      }
      if constexpr (requires { Operator::axis_defaults; })
        description.axis_defaults = Operator::axis_defaults;
      if constexpr (requires(const typename Operator::arguments& call) { Operator::check_memory(call); }) {
        description.check_memory = [](const void* call) {
          return Operator::check_memory(*static_cast<const typename Operator::arguments*>(call));
        };
      }
      if constexpr (requires(const typename Operator::arguments& call) { Operator::check_indices(call); }) {
        description.check_indices = [](const void* call) {
          return Operator::check_indices(*static_cast<const typename Operator::arguments*>(call));
        };
      }
      if constexpr (requires { Operator::index_tensors; }) {
        description.check_on_device = [](const void* call, index_source& from) {
          auto a = *static_cast<const typename Operator::arguments*>(call);
          std::string wrong = Operator::index_tensors.copy(a, from);
          if (wrong.empty()) wrong = Operator::check_memory(a);
          if constexpr (requires { Operator::check_indices(a); }) {
            if (wrong.empty()) wrong = Operator::check_indices(a);
          }
          return wrong;
        };
      }
    }
  };
  static const storage instance;
  return instance.description;
}

}  // namespace v0
}  // namespace switchyard
