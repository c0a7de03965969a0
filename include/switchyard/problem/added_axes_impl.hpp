// SPDX-License-Identifier: MIT
// The bodies of added_axes.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool argument_condition::holds(const evaluation& values) const noexcept {
  const auto program = value.program();
  if (program.size() == 2 && !is_real && program[1].from != detail::operand::stack) {
    // Two values compared, as most conditions do: several times as fast as running the program.
    const auto a = detail::load_operand<std::int64_t>(program[0], values);
    const auto b = detail::load_operand<std::int64_t>(program[1], values);
    switch (program[1].code) {
      case detail::opcode::equal:
        return a == b;
      case detail::opcode::not_equal:
        return a != b;
      case detail::opcode::less_equal:
        return a <= b;
      case detail::opcode::greater_equal:
        return a >= b;
      case detail::opcode::less:
        return a < b;
      case detail::opcode::greater:
        return a > b;
      default:
        break;
    }
  }
  if (is_real) return value.evaluate_real(values) != 0;
  const integer_result out = value.evaluate(values);
  return out.why == fault::none && out.value != 0;
}

SWITCHYARD_FUNCTION added_axes::added_axes(const operator_description& op)
    : op_{op}, reading_{op}, live_{op} {
  reading_.added = this;
  live_.added = this;
  for (std::size_t i = 0; i < op.axes.size(); ++i) axes_[i] = op.axes[i];
  live_.axes = {axes_.data(), op.axes.size()};
}

SWITCHYARD_FUNCTION const operator_description& added_axes::now() {
  const locked lock{mutex_};
  if (count_ == 0) return op_;
  std::unique_ptr<operator_description>& out = snapshots_[count_ - 1];
  if (out == nullptr) out = std::make_unique<operator_description>(live_);
  return *out;
}

SWITCHYARD_FUNCTION std::uint32_t added_axes::find(std::string_view name) {
  const locked lock{mutex_};
  return find_locked(name);
}

SWITCHYARD_FUNCTION std::uint32_t added_axes::add(std::string_view name, argument_condition fresh) {
  const locked lock{mutex_};
  if (const std::uint32_t known = find_locked(name); known != no_axis) return known;
  if (count_ == max_added_axes) return no_room;
  const std::size_t axis = op_.axes.size() + count_;
  all_[count_] = std::make_unique<named>(named{std::string{name}, std::move(fresh)});
  axes_[axis] = {all_[count_]->name, axis_kind::type, enumerator_names<bool>, true};
  ++count_;
  live_.axes = {axes_.data(), axis + 1};
  live_.added_count = count_;
  return static_cast<std::uint32_t>(axis);
}

SWITCHYARD_FUNCTION std::uint32_t added_axes::find_locked(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (all_[i]->name == name) return static_cast<std::uint32_t>(op_.axes.size() + i);
  }
  return no_axis;
}

SWITCHYARD_FUNCTION call_problem::call_problem(const operator_description& op, problem_view own,
                                               std::uint64_t conditions) noexcept
    : own_{own}, conditions_{conditions}, all_{own} {
  if (op.added_count == 0) return;
  for (std::size_t i = 0; i < own.size(); ++i) values_[i] = own[i];
  for (std::size_t i = 0; i < op.added_count; ++i)
    values_[own.size() + i] = static_cast<std::int64_t>(conditions >> i & 1U);
  all_ = {values_.data(), op.axes.size()};
}

SWITCHYARD_FUNCTION padded_problem::padded_problem(const operator_description& op,
                                                   problem_view problem) noexcept
    : view_{problem} {
  if (problem.size() >= op.axes.size()) return;
  for (std::size_t i = 0; i < op.axes.size(); ++i) values_[i] = i < problem.size() ? problem[i] : 0;
  view_ = {values_.data(), op.axes.size()};
}

}  // namespace v0
}  // namespace switchyard
