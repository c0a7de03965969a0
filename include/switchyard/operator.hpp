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
// An operator may also have `static std::string check(const arguments&)`, which returns what is wrong with
// a call, or an empty string. It runs only when a problem is met for the first time, so what it reads must be
// decided by axes: give pointers that must not be null, or must be aligned, and values that must be in a
// range, a derived axis (see alignment_of, mark_misaligned and mark_unless_below). An illegal call then has a
// problem that was never met.
//
// An operator may have `static std::string check_memory(const arguments&)` as well, which returns what is
// wrong with what the arguments' addresses lead to, as the numbers that tensors of indices hold. It runs
// before every launch on the CPU, where memory can be read, and never for a GPU. It must overflow nowhere and
// read nothing that is not there, whatever the arguments are.
//
// An argument may be a small array, as `float w[3]`: its elements are the arguments `w[0]` to `w[2]`.
// Tensors as fields, and a call that takes them, are described in tensor_call.hpp.
//
// Where an axis or an argument was renamed, `static constexpr std::array formerly{former_name{"length",
// "n"}}` keeps files readable that were written before. Where a type axis was added that older kernels must
// not ignore, `static constexpr std::array implied{implied_axis{"kv_dtype", "dtype"}}` gives it to what files
// say of the other axis alone.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/checked_product.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/base/member.hpp>

namespace switchyard {
inline namespace v0 {

/// Most axes an operator may have.
inline constexpr std::size_t max_axes = 32;

/// Type axes must match exactly; size axes are what tuning is over.
enum class axis_kind : std::uint8_t { type, size };

/// Machine type of an argument or a kernel parameter.
enum class value_kind : std::uint8_t { pointer, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64 };

/// Bytes a value takes in a kernel's parameter list; also its alignment.
[[nodiscard]] constexpr std::uint32_t size_of(value_kind kind) noexcept {
  constexpr std::array<std::uint8_t, 13> sizes{8, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return sizes[static_cast<std::size_t>(kind)];
}

struct axis_description {
  std::string_view name;
  axis_kind kind = axis_kind::size;
  std::span<const std::string_view> value_names;  ///< empty for plain integers
  bool is_flag = false;                           ///< of type bool: its values are 0 and 1
};

struct field_description {
  std::string_view name;
  value_kind kind = value_kind::pointer;
  std::uint32_t offset = 0;  ///< in the argument struct, in bytes
};

/// A name that an axis or an argument had, and the one it has now. Files may use either.
struct former_name {
  std::string_view former;
  std::string_view name;
};

/// A type axis that files may leave out: a `type` that names only `like` has the same value for `axis`. Both
/// axes have the same values.
struct implied_axis {
  std::string_view axis;
  std::string_view like;
};

class argument_axes;  // problem/argument_axes.hpp

/// An operator without its C++ type. The views are valid for the life of the program or, where files
/// added axes, of what keeps these.
struct operator_description {
  std::string_view name;
  std::span<const axis_description> axes;
  std::span<const field_description> fields;
  std::size_t argument_bytes = 0;
  std::span<const former_name> formerly;
  std::size_t added_axes = 0;          ///< how many of the last axes files added: see argument_axes
  std::size_t added_sizes = 0;         ///< how many of them are size axes
  argument_axes* arguments = nullptr;  ///< keeps those that files add; null: files may add none
  std::span<const implied_axis> implied{};
  /// The operator's check_memory(), of its argument struct; null: it has none.
  std::string (*check_memory)(const void* arguments) = nullptr;

  /// Axes that are the operator's own.
  [[nodiscard]] constexpr std::size_t own_axes() const noexcept { return axes.size() - added_axes; }
};

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
    if constexpr (is_truth) {
      return function(arguments).bits != 0 ? 1 : 0;
    } else {
      return static_cast<std::int64_t>(function(arguments));
    }
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

}  // namespace detail

/// The arguments that manifests may name, under the names of their members.
template <auto... Members>
inline constexpr detail::field_list<Members...> fields{};

namespace detail {

template <class Value>
constexpr void require_axis_value() {
  static_assert(std::is_integral_v<Value> || std::is_enum_v<Value> || std::is_same_v<Value, truth>,
                "an axis is an integer, a bool or an enumeration: a float would be cut off");
}

}  // namespace detail

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

/// A size axis computed from the arguments by a noexcept lambda.
template <class Function>
[[nodiscard]] constexpr auto size_axis(std::string_view name, Function function) {
  detail::require_axis_value<detail::derived_value<Function>>();
  return detail::derived_axis<Function, detail::derived_value<Function>>{name, axis_kind::size, function};
}

/// The axes of an operator, in the order of its problems.
template <class... Axes>
[[nodiscard]] constexpr auto axes(Axes... all) {
  static_assert(sizeof...(Axes) <= max_axes, "an operator has at most 32 axes");
  return std::tuple<Axes...>{all...};
}

// clang-format off
/// Satisfied by a struct with `name`, `arguments`, `fields` and `axes`, as above.
template <class Operator>
concept operator_type = std::default_initializable<typename Operator::arguments> &&
    std::is_trivially_copyable_v<typename Operator::arguments> && requires {
      { Operator::name } -> std::convertible_to<std::string_view>;
      Operator::fields.count;
      std::tuple_size_v<std::remove_cvref_t<decltype(Operator::axes)>>;
    };
// clang-format on

template <operator_type Operator>
inline constexpr std::size_t axis_count = std::tuple_size_v<std::remove_cvref_t<decltype(Operator::axes)>>;

/// All axis values of one call, in the order of the operator's axes.
template <operator_type Operator>
using problem_of = std::array<std::int64_t, axis_count<Operator>>;

/// An erased problem.
using problem_view = std::span<const std::int64_t>;

/// An axis and the value that it must have.
struct axis_value {
  std::uint32_t axis = 0;
  std::int64_t value = 0;

  friend bool operator==(const axis_value&, const axis_value&) = default;
};

template <operator_type Operator>
[[nodiscard]] constexpr problem_of<Operator> make_problem(
    const typename Operator::arguments& arguments) noexcept {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return problem_of<Operator>{std::get<Index>(Operator::axes)(arguments)...};
  }
  (std::make_index_sequence<axis_count<Operator>>{});
}

namespace detail {

/// Whether an axis or an argument of the operator has this name.
template <operator_type Operator>
[[nodiscard]] constexpr bool has_name(std::string_view name) {
  bool found =
      std::apply([name](const auto&... axis) { return ((axis.name == name) || ...); }, Operator::axes);
  Operator::fields.for_each([&]<auto Member>() { found = found || member_name<Member>() == name; });
  return found;
}

/// Whether every former name is free again, and what it became exists.
template <operator_type Operator>
[[nodiscard]] constexpr bool former_names_are_sound() {
  for (const former_name& each : Operator::formerly) {
    if (has_name<Operator>(each.former) || !has_name<Operator>(each.name)) return false;
  }
  return true;
}

/// Whether every pair of `implied` names two type axes.
template <operator_type Operator>
[[nodiscard]] constexpr bool implied_axes_are_sound() {
  const auto is_type = [](std::string_view name) {
    return std::apply(
        [name](const auto&... axis) { return ((axis.name == name && axis.kind == axis_kind::type) || ...); },
        Operator::axes);
  };
  for (const implied_axis& each : Operator::implied) {
    if (!is_type(each.axis) || !is_type(each.like)) return false;
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
      std::apply([&](const auto&... axis) { (add_axis(axis), ...); }, Operator::axes);
      field_description* next = fields.data();
      const typename Operator::arguments probe{};
      Operator::fields.for_each([&]<auto Member>() {
        const auto* base = reinterpret_cast<const std::byte*>(&probe);
        const auto* member = reinterpret_cast<const std::byte*>(&(probe.*Member));
        detail::add_fields<Member>(next, static_cast<std::uint32_t>(member - base));
      });
      description = {Operator::name, axes, fields, sizeof(typename Operator::arguments), {}, 0, 0,
                     nullptr,        {}};
      if constexpr (requires { Operator::formerly; }) {
        static_assert(detail::former_names_are_sound<Operator>(),
                      "`formerly` maps a name that no axis and no argument has to one that exists");
        description.formerly = Operator::formerly;
      }
      if constexpr (requires { Operator::implied; }) {
        static_assert(detail::implied_axes_are_sound<Operator>(), "`implied` names type axes in pairs");
        description.implied = Operator::implied;
      }
      if constexpr (requires(const typename Operator::arguments& call) { Operator::check_memory(call); }) {
        description.check_memory = [](const void* call) {
          return Operator::check_memory(*static_cast<const typename Operator::arguments*>(call));
        };
      }
    }
  };
  static const storage instance;
  return instance.description;
}

/// Names of the strides that are not set or negative; empty where all are legal. For an operator's check().
template <auto... Strides, class Arguments>
[[nodiscard]] std::string wrong_strides(const Arguments& arguments) {
  if (((arguments.*Strides >= 0) && ...)) return {};  // a name takes a hundred instructions to find
  std::string out;
  const auto look = [&](std::string_view name, std::int64_t stride) {
    if (stride >= 0 || !out.empty()) return;
    out = std::string{name} + (stride == unset ? " is not set"
                               : stride == detail::too_large
                                   ? " is above what 64 bits hold: the extents are too large"
                                   : " must not be negative: it is " + std::to_string(stride));
  };
  (look(detail::member_name<Strides>(), arguments.*Strides), ...);
  return out;
}

/// The name of a pointer that is no multiple of its element size; empty where all are. For an operator's
/// check(); see mark_misaligned.
template <auto... Pointers, class Arguments>
[[nodiscard]] std::string wrong_addresses(const Arguments& arguments) {
  std::string out;
  const auto look = [&](std::string_view name, const auto* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % sizeof *pointer == 0 || !out.empty()) return;
    out = std::string{name} + " must be aligned to its element size, " + std::to_string(sizeof *pointer) +
          " bytes: its address is " + std::to_string(address % sizeof *pointer) + " bytes past a multiple";
  };
  (look(detail::member_name<Pointers>(), arguments.*Pointers), ...);
  return out;
}

/// What is wrong with a float that must be finite and not negative; empty where nothing is. For an operator's
/// check(); see mark_unless_positive.
[[nodiscard]] inline std::string wrong_magnitude(std::string_view name, float value) {
  if (mark_unless_positive(value) >= 0) return {};
  return std::string{name} + " must be finite and not negative: it is " + std::to_string(value);
}

}  // namespace v0
}  // namespace switchyard
