// SPDX-License-Identifier: MIT
// Axes that files add to an operator: conditions on arguments, and arguments themselves.
//
// A manifest may require `q_stride_head == head_dim`, and a table may tell rows apart by `window_left`, which
// no axis of the operator holds. The condition becomes a flag, a type axis named by its text without spaces;
// the argument becomes a size axis. They follow the operator's own axes, and problems, rows, recordings and
// explanations treat them like any other. Calls keep a shorter form, the packed problem: the values of the
// operator's own axes, one word with a bit for each condition, and the arguments. expanded_problem makes
// the rest.
//
// Axes are only ever added. Any thread may enter, unless a function says otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Most axes that the files of one operator may add, all together, and most arguments among them.
inline constexpr std::size_t max_argument_axes = 64;
inline constexpr std::size_t max_argument_sizes = 8;

/// Values that a packed problem has at most.
inline constexpr std::size_t max_packed = max_axes + 1 + max_argument_sizes;
static_assert(max_packed <= detail::hash_factor_count);

/// What a packed problem has behind the operator's own axes.
using added_values = std::array<std::int64_t, 1 + max_argument_sizes>;

/// A condition on arguments, or an argument, without its name.
struct argument_axis {
  expression value;
  axis_kind kind = axis_kind::type;  ///< of an argument: size
  bool is_real = false;              ///< a condition computed in double: it reads what is no integer

  /// A condition's value. A fault, such as a division by zero, makes it false.
  [[nodiscard]] bool holds(const evaluation& values) const noexcept;
};

class argument_axes {
 public:
  /// `op` outlives it.
  explicit argument_axes(const operator_description& op);
  argument_axes(const argument_axes&) = delete;
  argument_axes& operator=(const argument_axes&) = delete;

  /// The operator for readers of files, which find axes here and add them.
  [[nodiscard]] const operator_description& reading() const noexcept { return reading_; }

  /// The operator with the axes that were added so far as its last ones; the operator itself where there are
  /// none. What is returned does not change, and stays as long as this object.
  [[nodiscard]] const operator_description& now();

  /// The same, growing as axes are added. For programs of which one thread reads files.
  [[nodiscard]] const operator_description& live() const noexcept { return live_; }

  static constexpr std::uint32_t no_axis = UINT32_MAX;
  static constexpr std::uint32_t no_room = UINT32_MAX - 1;

  /// An added axis by its name; no_axis for one that nobody added.
  [[nodiscard]] std::uint32_t find(std::string_view name);

  /// The axis of this name, which is added if it is new; no_room where there are too many others.
  [[nodiscard]] std::uint32_t add(std::string_view name, argument_axis fresh);

  /// An axis that find() or add() gave.
  [[nodiscard]] const axis_description& at(std::uint32_t axis) const noexcept { return axes_[axis]; }

  /// The operator's own axes that an added axis reads, a bit each.
  [[nodiscard]] std::uint64_t axes_read_by(std::size_t added) const noexcept {
    return all_[added]->axis.value.axes_read();
  }

  /// The first `count` added axes for a call: a word with a bit for each condition, and the arguments behind
  /// it. `values` have the operator's own axes and the call's arguments.
  void evaluate(std::size_t count, const evaluation& values, std::int64_t* to) const noexcept {
    std::uint64_t bits = 0;
    std::int64_t* next = to + 1;
    for (std::size_t i = 0; i < count; ++i) {
      const argument_axis& each = all_[i]->axis;
      if (each.kind == axis_kind::size) {
        *next++ = each.value.evaluate(values).value;
      } else {
        bits |= static_cast<std::uint64_t>(each.holds(values)) << i;
      }
    }
    *to = static_cast<std::int64_t>(bits);
  }

 private:
  struct named {
    std::string name;
    argument_axis axis;
  };

  [[nodiscard]] std::uint32_t find_locked(std::string_view name) const noexcept;

  const operator_description& op_;
  operator_description reading_;
  mutex mutex_;
  operator_description live_;  // guarded by mutex_, as what follows, but for elements that were added before
  std::size_t count_ = 0;
  std::array<std::unique_ptr<named>, max_argument_axes> all_;
  std::array<axis_description, max_axes + max_argument_axes> axes_;
  std::array<std::unique_ptr<operator_description>, max_argument_axes> snapshots_;  // by count - 1
};

/// An axis as readers of files know it: an operator's own, or one that files added.
[[nodiscard]] inline const axis_description& axis_at(const operator_description& op,
                                                     std::uint32_t axis) noexcept {
  return axis < op.axes.size() ? op.axes[axis] : op.arguments->at(axis);
}

/// Whether an operator has the axes that a type names, in ascending order, or that an expression reads. It
/// lacks those that files added after it was described.
[[nodiscard]] inline bool has_axes(const operator_description& op,
                                   std::span<const axis_value> type) noexcept {
  return type.empty() || type.back().axis < op.axes.size();
}
[[nodiscard]] bool has_axes(const operator_description& op, const expression& value) noexcept;

/// A problem as calls keep it.
class packed_problem {
 public:
  /// `own` are the values of the operator's own axes; `attributes` are the device's.
  packed_problem(const operator_description& op, problem_view own, std::span<const std::int64_t> attributes,
                 const void* arguments) noexcept;
  operator problem_view() const noexcept {  // NOLINT(google-explicit-constructor)
    return {values_.data(), count_};
  }

 private:
  std::array<std::int64_t, max_packed> values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count_
  std::size_t count_;
};

/// A packed problem with a value for each axis. Refers to the packed one where files add no axes.
class expanded_problem {
 public:
  expanded_problem(const operator_description& op, problem_view packed) noexcept;
  expanded_problem(const expanded_problem&) = delete;
  expanded_problem& operator=(const expanded_problem&) = delete;

  [[nodiscard]] problem_view view() const noexcept { return view_; }

 private:
  problem_view view_;
  std::array<std::int64_t, max_axes + max_argument_axes>
      values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see view_
};

/// A problem with a value for each axis, from one that may lack those that files added: they are false, or 0.
class padded_problem {
 public:
  padded_problem(const operator_description& op, problem_view problem) noexcept;
  padded_problem(const padded_problem&) = delete;
  padded_problem& operator=(const padded_problem&) = delete;

  [[nodiscard]] problem_view view() const noexcept { return view_; }

 private:
  problem_view view_;
  std::array<std::int64_t, max_axes + max_argument_axes>
      values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see view_
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/problem/argument_axes_impl.hpp>
#endif
