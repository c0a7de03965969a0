// SPDX-License-Identifier: MIT
// Axes that files add to an operator: conditions on arguments.
//
// A manifest may require `q_stride_head == head_dim`, and a table may have rows for calls where this holds,
// although no axis of the operator tells them apart. The condition becomes a flag: a type axis, named by its
// text without spaces, that follows the operator's own axes in problems, recordings and explanations. Calls
// keep a shorter form: the values of the operator's own axes, and one word with a bit for each condition.
// call_problem has both forms.
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

/// Most conditions that the files of one operator may add, all together.
inline constexpr std::size_t max_added_axes = 64;

/// A condition on arguments, without its name.
struct argument_condition {
  expression value;
  bool is_real = false;  ///< computed in double: it reads what is no integer

  /// A fault, such as a division by zero, makes it false.
  [[nodiscard]] bool holds(const evaluation& values) const noexcept;
};

class added_axes {
 public:
  /// `op` outlives it.
  explicit added_axes(const operator_description& op);
  added_axes(const added_axes&) = delete;
  added_axes& operator=(const added_axes&) = delete;

  /// The operator as readers of files are given it: `added` is this object, in which they find and add axes.
  [[nodiscard]] const operator_description& reading() const noexcept { return reading_; }

  /// The operator with the axes added so far as its last ones; the operator itself if there are none. The
  /// returned description does not change, and lives as long as this object.
  [[nodiscard]] const operator_description& now();

  /// The same, but it grows as axes are added. For programs in which a single thread reads files.
  [[nodiscard]] const operator_description& live() const noexcept { return live_; }

  static constexpr std::uint32_t no_axis = UINT32_MAX;
  static constexpr std::uint32_t no_room = UINT32_MAX - 1;

  /// An added axis by its name; no_axis if there is none.
  [[nodiscard]] std::uint32_t find(std::string_view name);

  /// The axis of this name, added if it is new; no_room if there are max_added_axes others.
  [[nodiscard]] std::uint32_t add(std::string_view name, argument_condition fresh);

  /// An axis that find() or add() gave.
  [[nodiscard]] const axis_description& at(std::uint32_t axis) const noexcept { return axes_[axis]; }

  /// The operator's own axes that an added axis reads, a bit each.
  [[nodiscard]] std::uint64_t axes_read_by(std::size_t added) const noexcept {
    return all_[added]->condition.value.axes_read();
  }

  /// A bit for each of the first `count` conditions: whether it holds for a call. `values` have the
  /// operator's own axes and the call's arguments.
  [[nodiscard]] std::uint64_t evaluate(std::size_t count, const evaluation& values) const noexcept {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < count; ++i)
      bits |= static_cast<std::uint64_t>(all_[i]->condition.holds(values)) << i;
    return bits;
  }

 private:
  struct named {
    std::string name;
    argument_condition condition;
  };

  [[nodiscard]] std::uint32_t find_locked(std::string_view name) const noexcept;

  const operator_description& op_;
  operator_description reading_;
  mutex mutex_;
  operator_description live_;  // guarded by mutex_, as what follows, but for elements that were added before
  std::size_t count_ = 0;
  std::array<std::unique_ptr<named>, max_added_axes> all_;
  std::array<axis_description, max_axes + max_added_axes> axes_;
  std::array<std::unique_ptr<operator_description>, max_added_axes> snapshots_;  // by count - 1
};

/// An axis as readers of files know it: an operator's own, or one that files added.
[[nodiscard]] inline const axis_description& axis_at(const operator_description& op,
                                                     std::uint32_t axis) noexcept {
  return axis < op.axes.size() ? op.axes[axis] : op.added->at(axis);
}

/// Whether an operator has all axes that a type names, in ascending order. A description lacks the axes that
/// files added after it was made.
[[nodiscard]] inline bool has_axes(const operator_description& op,
                                   std::span<const axis_value> type) noexcept {
  return type.empty() || type.back().axis < op.axes.size();
}

/// The problem of a call, or of a plan: the values of the operator's own axes, which outlive it, and the
/// conditions on arguments. It is expanded once, where it is made.
class call_problem {
 public:
  /// The problem of a call. `attributes` are the device's.
  call_problem(const operator_description& op, problem_view own, std::span<const std::int64_t> attributes,
               const void* arguments) noexcept
      : call_problem{op, own,
                     op.added_count == 0
                         ? 0
                         : op.added->evaluate(op.added_count, {own, attributes, op.fields,
                                                               static_cast<const std::byte*>(arguments)})} {}
  /// The problem of a plan. `conditions`: a bit for each, in the order in which they were added.
  call_problem(const operator_description& op, problem_view own, std::uint64_t conditions) noexcept;
  call_problem(const call_problem&) = delete;
  call_problem& operator=(const call_problem&) = delete;

  [[nodiscard]] problem_view own() const noexcept { return own_; }
  [[nodiscard]] std::uint64_t conditions() const noexcept { return conditions_; }
  /// With a value for each axis, also those that files added.
  [[nodiscard]] problem_view all() const noexcept { return all_; }

 private:
  problem_view own_;
  std::uint64_t conditions_;
  problem_view all_;
  std::array<std::int64_t, max_axes + max_added_axes>
      values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see all_
};

/// A problem with a value for each axis, from one that may lack those that files added: they are false.
class padded_problem {
 public:
  padded_problem(const operator_description& op, problem_view problem) noexcept;
  padded_problem(const padded_problem&) = delete;
  padded_problem& operator=(const padded_problem&) = delete;

  [[nodiscard]] problem_view view() const noexcept { return view_; }

 private:
  problem_view view_;
  std::array<std::int64_t, max_axes + max_added_axes>
      values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see view_
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/problem/added_axes_impl.hpp>
#endif
