// SPDX-License-Identifier: MIT
// An operator without its C++ type: the names, kinds and places of its axes and arguments. operator.hpp makes
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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

namespace detail {

/// Whether an integer expression's value can be stored as `kind` without loss.
[[nodiscard]] constexpr bool fits(value_kind kind, std::int64_t value) noexcept {
  const unsigned bits = size_of(kind) * 8;
  if (bits == 64) return kind != value_kind::u64 || value >= 0;
  const bool is_signed = kind == value_kind::i8 || kind == value_kind::i16 || kind == value_kind::i32;
  const std::int64_t high = std::int64_t{1} << (is_signed ? bits - 1 : bits);
  return value < high && value >= (is_signed ? -high : 0);
}

}  // namespace detail

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
/// axes have the same values. `no` in place of the other axis: variants that leave out the axis, a truth, are
/// those where it is false; rows hold for both values.
struct implied_axis {
  static constexpr std::string_view no = "false";
  std::string_view axis;
  std::string_view like;
};

/// The value of an axis that a problem given by its axes, as on a command line, does not name.
struct axis_default {
  std::string_view axis;
  std::string_view value;  ///< as text, or "=axis" for the value of another axis
};

class added_axes;  // problem/added_axes.hpp

/// Copies numbers from where a device has them, for checked mode.
class index_source {
 public:
  index_source() = default;
  index_source(const index_source&) = delete;
  index_source& operator=(const index_source&) = delete;
  virtual ~index_source() = default;

  /// The copy lives as long as the source. `name` is the argument's. Throws driver_error.
  [[nodiscard]] virtual const void* read(const void* address, std::size_t bytes, const std::string& name) = 0;
};

/// An operator without its C++ type. The views are valid for the life of the program or, where files
/// added axes, of what keeps these.
struct operator_description {
  std::string_view name;
  std::span<const axis_description> axes;
  std::span<const field_description> fields;
  std::size_t argument_bytes = 0;
  std::span<const former_name> formerly;
  std::size_t added_count = 0;  ///< how many of the axes, the last ones, files added: see added_axes
  added_axes* added = nullptr;  ///< keeps the axes that files add; null: they may add none
  std::span<const implied_axis> implied{};
  /// The operator's check_memory(), of its argument struct; null: it has none.
  std::string (*check_memory)(const void* arguments) = nullptr;
  std::span<const axis_default> axis_defaults{};
  /// What checked mode asks of a device: check_memory() of copies of the tensors of indices, then
  /// check_indices(); null: the operator lists no such tensors.
  std::string (*check_on_device)(const void* arguments, index_source& from) = nullptr;
  /// The operator's check_indices(), of its argument struct; null: it has none.
  std::string (*check_indices)(const void* arguments) = nullptr;

  /// Axes that are the operator's own.
  [[nodiscard]] constexpr std::size_t own_axes() const noexcept { return axes.size() - added_count; }
};

/// An erased problem.
using problem_view = std::span<const std::int64_t>;

/// An axis and the value that it must have.
struct axis_value {
  std::uint32_t axis = 0;
  std::int64_t value = 0;

  friend bool operator==(const axis_value&, const axis_value&) = default;
};

}  // namespace v0
}  // namespace switchyard
