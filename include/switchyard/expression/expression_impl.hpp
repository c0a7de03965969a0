// SPDX-License-Identifier: MIT
// The bodies of expression.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/evaluation.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool expression::reads_fields() const noexcept {
  bool any = false;
  for_each_field([&any](std::uint32_t) { any = true; });
  return any;
}

SWITCHYARD_FUNCTION bool expression::reads_attributes() const noexcept {
  for (const detail::instruction& step : program()) {
    if (step.from == detail::operand::attribute) return true;
  }
  return false;
}

SWITCHYARD_FUNCTION bool expression::reads_axis(std::uint32_t index) const noexcept {
  for (const detail::instruction& step : program()) {
    if (step.from == detail::operand::axis && step.index == index) return true;
  }
  return false;
}

SWITCHYARD_FUNCTION std::uint64_t expression::axes_read() const noexcept {
  static_assert(max_axes <= max_axes_read);
  std::uint64_t out = 0;
  for (const detail::instruction& step : program()) {
    if (step.from == detail::operand::axis) out |= std::uint64_t{1} << step.index;
  }
  return out;
}

SWITCHYARD_FUNCTION expression expression::fold(std::span<const axis_value> axes,
                                                std::span<const std::int64_t> attributes) const {
  detail::program_writer to{false};
  fold_part({0, program().size()}, axes, attributes, to);
  expression out;
  out.take(to);
  return out;
}

SWITCHYARD_FUNCTION void expression::fold_part(part range, std::span<const axis_value> axes,
                                               std::span<const std::int64_t> attributes,
                                               detail::program_writer& to) const {
  const std::span<const detail::instruction> program = this->program();
  for (std::size_t at = range.begin; at < range.end; ++at) {
    const detail::instruction& step = program[at];
    if (step.code == detail::opcode::jump_if_zero) {
      // The two parts of a conditional. The first one ends in a jump over the second.
      const part first{at + 1, step.index - 1};
      const part second{step.index, program[first.end].index};
      at = second.end - 1;
      if (to.ends_in_constants(1)) {
        fold_part(to.take_condition() ? first : second, axes, attributes, to);
        continue;
      }
      const std::size_t test = to.jump(detail::opcode::jump_if_zero);
      fold_part(first, axes, attributes, to);
      const std::size_t over = to.jump(detail::opcode::jump);
      to.land(test);
      fold_part(second, axes, attributes, to);
      to.land(over);
      continue;
    }
    if (step.from != detail::operand::stack) push_known(step, axes, attributes, to);
    if (step.code != detail::opcode::push) (void)to.operate(step.code);
  }
}

SWITCHYARD_FUNCTION void expression::push_known(const detail::instruction& step,
                                                std::span<const axis_value> axes,
                                                std::span<const std::int64_t> attributes,
                                                detail::program_writer& to) {
  if (step.from == detail::operand::attribute)
    return to.push(detail::operand::constant, 0, attributes[step.index]);
  if (step.from == detail::operand::axis) {
    for (const axis_value& wanted : axes) {
      if (wanted.axis == step.index) return to.push(detail::operand::constant, 0, wanted.value);
    }
  }
  to.push(step.from, step.index, step.integer);
}

SWITCHYARD_FUNCTION void expression::take(detail::program_writer& from) {
  steps_ = from.take();
  if (steps_.size() != 1) return;
  single_ = steps_.front();
  steps_ = {};
}

}  // namespace v0
}  // namespace switchyard
