// SPDX-License-Identifier: MIT
// The bodies of build_joint_program.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/build_joint_program.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::uint32_t joint_program_builder::add(expression value) {
  const auto number = static_cast<std::uint32_t>(expressions_.size());
  std::vector<std::uint32_t>& alike = by_hash_[hash_of(value.program())];
  for (const std::uint32_t other : alike) {
    if (expressions_[other] == value) return other;
  }
  alike.push_back(number);
  const std::size_t before = values_.size();
  std::vector<std::uint32_t> stack;
  is_possible_ = true;
  translate(value.program(), {0, value.program().size()}, stack);
  if (is_possible_ && values_.size() <= joint_program::max_registers) {
    results_.push_back(stack.back());
    mark(stack.back(), number);
  } else {
    results_.push_back(joint_program::interpreted);
    for (auto numbered = numbers_.begin(); numbered != numbers_.end();)
      numbered = numbered->second >= before ? numbers_.erase(numbered) : std::next(numbered);
    values_.resize(before);
  }
  expressions_.push_back(std::move(value));
  return number;
}

SWITCHYARD_FUNCTION joint_program joint_program_builder::build() {
  joint_program out;
  std::vector<std::uint32_t> registers(values_.size());
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].is.from != operand::constant) continue;
    out.constants_.push_back(values_[i].is.constant);
    registers[i] = count++;
  }
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].is.from != operand::axis) continue;
    out.axes_.push_back(values_[i].is.parts[0]);
    registers[i] = count++;
  }
  const auto put = [&](std::uint32_t index) {
    const meaning& is = values_[index].is;
    const auto of = [&](std::size_t part) { return static_cast<std::uint16_t>(registers[is.parts[part]]); };
    out.steps_.push_back({is.code, of(0), of(1), of(2)});
    registers[index] = count++;
  };
  std::vector<std::vector<std::uint32_t>> own(results_.size());  // steps of one expression alone
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].is.from != operand::stack) continue;
    if (values_[i].is_shared) {
      put(i);
    } else {
      own[values_[i].first_user].push_back(i);
    }
  }
  out.shared_ = static_cast<std::uint32_t>(out.steps_.size());
  for (std::size_t number = 0; number < results_.size(); ++number) {
    const auto begin = static_cast<std::uint32_t>(out.steps_.size());
    for (const std::uint32_t index : own[number]) put(index);
    const std::uint32_t result = results_[number];
    out.outputs_.push_back({begin, static_cast<std::uint32_t>(out.steps_.size()),
                            result == joint_program::interpreted ? result : registers[result]});
  }
  out.expressions_ = std::move(expressions_);
  return out;
}

SWITCHYARD_FUNCTION std::uint64_t joint_program_builder::hash_of(
    std::span<const detail::instruction> program) noexcept {
  std::uint64_t sum = program.size();
  for (const detail::instruction& instruction : program) {
    sum = (sum ^ static_cast<std::uint64_t>(instruction.code) ^
           static_cast<std::uint64_t>(instruction.from) << 8U ^ std::uint64_t{instruction.index} << 16U) *
          0x9e3779b97f4a7c15U;
    sum = (sum ^ sum >> 32U ^ static_cast<std::uint64_t>(instruction.integer)) * 0xd1342543de82ef95U;
  }
  return sum;
}

SWITCHYARD_FUNCTION std::uint32_t joint_program_builder::number_of(const meaning& wanted) {
  const auto [known, is_new] = numbers_.try_emplace(wanted, static_cast<std::uint32_t>(values_.size()));
  if (is_new) values_.push_back({wanted});
  return known->second;
}

SWITCHYARD_FUNCTION void joint_program_builder::translate(std::span<const detail::instruction> program,
                                                          section range, std::vector<std::uint32_t>& stack) {
  for (std::size_t at = range.begin; at < range.end && is_possible_; ++at) {
    const detail::instruction& instruction = program[at];
    if (instruction.code == opcode::jump_if_zero) {
      // The two parts of a conditional. The first one ends in a jump over the second.
      const section first{at + 1, instruction.index - std::size_t{1}};
      const section second{instruction.index, program[first.end].index};
      at = second.end - 1;
      const std::uint32_t condition = take(stack);
      translate(program, first, stack);
      translate(program, second, stack);
      if (!is_possible_) return;
      const std::uint32_t otherwise = take(stack);
      const std::uint32_t then = take(stack);
      stack.push_back(number_of({operand::stack, joint_program::take_one, {then, otherwise, condition}}));
      continue;
    }
    if (instruction.from == operand::constant) {
      stack.push_back(number_of({operand::constant, opcode::push, {}, instruction.integer}));
    } else if (instruction.from == operand::axis) {
      stack.push_back(number_of({operand::axis, opcode::push, {instruction.index, 0, 0}}));
    } else if (instruction.from != operand::stack) {
      is_possible_ = false;
      return;
    }
    if (instruction.code == opcode::push) continue;
    const std::uint32_t last = take(stack);
    const std::uint32_t first = detail::operand_count(instruction.code) == 2 ? take(stack) : last;
    stack.push_back(number_of({operand::stack, instruction.code, {first, last, first}}));
  }
}

SWITCHYARD_FUNCTION std::uint32_t joint_program_builder::take(std::vector<std::uint32_t>& stack) {
  const std::uint32_t out = stack.back();
  stack.pop_back();
  return out;
}

SWITCHYARD_FUNCTION void joint_program_builder::mark(std::uint32_t number, std::uint32_t user) {
  known_value& value = values_[number];
  if (value.first_user == user || value.is_shared) return;
  if (value.first_user == joint_program::interpreted) {
    value.first_user = user;
  } else {
    value.is_shared = true;
  }
  if (value.is.from != operand::stack) return;
  for (const std::uint32_t part : value.is.parts) mark(part, user);
}

}  // namespace v0
}  // namespace switchyard
