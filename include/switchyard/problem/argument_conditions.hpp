// Conditions on arguments that files name: flags that continue an operator's type axes.
//
// A manifest may require `q_stride_head == head_dim`, which no axis of the operator holds. The condition then
// becomes an axis behind the operator's own, named by its text without spaces: problems, rows, recordings and
// explanations have it like any other type axis. What calls keep is shorter: the values of the operator's own
// axes and one word with a bit for each condition. That is a packed problem; expanded_problem makes the rest.
//
// Conditions are only ever added. Any thread may enter, unless a function says otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/lock.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// Most conditions on arguments that the files of one operator may name, all together.
inline constexpr std::size_t max_conditions = 64;

/// What files say of an axis that is a condition, whichever it is.
inline constexpr axis_description condition_axis{"condition", axis_kind::type, enumerator_names<bool>, true};

/// A condition on arguments, without its name.
struct argument_condition {
  expression value;
  bool is_real = false;  ///< computed in double, because it reads an argument that is no integer

  /// A fault, such as a division by zero, makes it false.
  [[nodiscard]] bool holds(const evaluation& values) const noexcept {
    if (is_real) return value.evaluate_real(values) != 0;
    const integer_result out = value.evaluate(values);
    return out.why == fault::none && out.value != 0;
  }
};

class argument_conditions {
 public:
  /// `op` outlives it.
  explicit argument_conditions(const operator_description& op) : op_{op}, reading_{op}, live_{op} {
    reading_.conditions = this;
    live_.conditions = this;
    for (std::size_t i = 0; i < op.axes.size(); ++i) axes_[i] = op.axes[i];
    live_.axes = {axes_.data(), op.axes.size()};
  }
  argument_conditions(const argument_conditions&) = delete;
  argument_conditions& operator=(const argument_conditions&) = delete;

  /// The operator for readers of files, which find conditions here and add them.
  [[nodiscard]] const operator_description& reading() const noexcept { return reading_; }

  /// The operator with the conditions known now as its last axes; the operator itself where there are none.
  /// What is returned does not change, and stays as long as this object.
  [[nodiscard]] const operator_description& now() {
    const locked lock{mutex_};
    if (count_ == 0) return op_;
    std::unique_ptr<operator_description>& out = snapshots_[count_ - 1];
    if (out == nullptr) out = std::make_unique<operator_description>(live_);
    return *out;
  }

  /// The same, growing as conditions are added. For programs of which one thread reads files.
  [[nodiscard]] const operator_description& live() const noexcept { return live_; }

  static constexpr std::uint32_t no_axis = UINT32_MAX;
  static constexpr std::uint32_t no_room = UINT32_MAX - 1;

  /// The axis of a condition, by its text without spaces; no_axis for one that nobody added.
  [[nodiscard]] std::uint32_t find(std::string_view text) {
    const locked lock{mutex_};
    return find_locked(text);
  }

  /// The axis of a condition, which is added if it is new; no_room where there are max_conditions others.
  [[nodiscard]] std::uint32_t add(std::string_view text, argument_condition condition) {
    const locked lock{mutex_};
    if (const std::uint32_t known = find_locked(text); known != no_axis) return known;
    if (count_ == max_conditions) return no_room;
    all_[count_] = std::make_unique<named>(named{std::string{text}, std::move(condition)});
    const std::size_t axis = op_.axes.size() + count_;
    axes_[axis] = condition_axis;
    axes_[axis].name = all_[count_]->text;
    ++count_;
    live_.axes = {axes_.data(), axis + 1};
    live_.condition_count = count_;
    return static_cast<std::uint32_t>(axis);
  }

  /// The first `count` conditions for a call, a bit each; they were added before. `values` have the
  /// operator's own axes and the call's arguments.
  [[nodiscard]] std::uint64_t evaluate(std::size_t count, const evaluation& values) const noexcept {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < count; ++i)
      out |= static_cast<std::uint64_t>(all_[i]->condition.holds(values)) << i;
    return out;
  }

 private:
  struct named {
    std::string text;
    argument_condition condition;
  };

  [[nodiscard]] std::uint32_t find_locked(std::string_view text) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (all_[i]->text == text) return static_cast<std::uint32_t>(op_.axes.size() + i);
    }
    return no_axis;
  }

  const operator_description& op_;
  operator_description reading_;
  mutex mutex_;
  operator_description live_;  // guarded by mutex_, as what follows, but for elements that were added before
  std::size_t count_ = 0;
  std::array<std::unique_ptr<named>, max_conditions> all_;
  std::array<axis_description, max_axes + max_conditions> axes_;
  std::array<std::unique_ptr<operator_description>, max_conditions> snapshots_;  // by count - 1
};

/// An axis as readers of files need it: an operator's own, or any condition.
[[nodiscard]] inline const axis_description& axis_at(const operator_description& op,
                                                     std::uint32_t axis) noexcept {
  return axis < op.axes.size() ? op.axes[axis] : condition_axis;
}

/// Values that a packed problem has.
[[nodiscard]] inline std::size_t packed_size(const operator_description& op) noexcept {
  return op.own_axes() + (op.condition_count > 0 ? 1 : 0);
}

/// A problem of an operator with conditions as calls keep it.
class packed_problem {
 public:
  /// `own` are the values of the operator's own axes; `attributes` are the device's.
  packed_problem(const operator_description& op, problem_view own, std::span<const std::int64_t> attributes,
                 const void* arguments) noexcept
      : count_{packed_size(op)} {
    for (std::size_t i = 0; i < op.own_axes(); ++i) values_[i] = own[i];
    if (op.condition_count == 0) return;
    const std::uint64_t bits = op.conditions->evaluate(
        op.condition_count, {own, attributes, op.fields, static_cast<const std::byte*>(arguments)});
    values_[op.own_axes()] = static_cast<std::int64_t>(bits);
  }
  operator problem_view() const noexcept {  // NOLINT(google-explicit-constructor)
    return {values_.data(), count_};
  }

 private:
  std::array<std::int64_t, max_axes + 1> values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count_
  std::size_t count_;
};

/// A packed problem with a value for each axis. Refers to the packed one where an operator has no conditions.
class expanded_problem {
 public:
  expanded_problem(const operator_description& op, problem_view packed) noexcept : view_{packed} {
    if (op.condition_count == 0) return;
    const std::size_t own = op.own_axes();
    const auto bits = static_cast<std::uint64_t>(packed[own]);
    for (std::size_t i = 0; i < own; ++i) values_[i] = packed[i];
    for (std::size_t i = 0; i < op.condition_count; ++i)
      values_[own + i] = static_cast<std::int64_t>(bits >> i & 1U);
    view_ = {values_.data(), own + op.condition_count};
  }
  expanded_problem(const expanded_problem&) = delete;
  expanded_problem& operator=(const expanded_problem&) = delete;

  [[nodiscard]] problem_view view() const noexcept { return view_; }

 private:
  problem_view view_;
  std::array<std::int64_t, max_axes + max_conditions>
      values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see view_
};

}  // namespace v0
}  // namespace switchyard
