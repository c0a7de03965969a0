// SPDX-License-Identifier: MIT
// The bodies of address.hpp.
#pragma once

#include <cstddef>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/address.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Whether an operator's result says something about its operands, but is no number like them: `x != 0`.
[[nodiscard]] constexpr bool is_truth(opcode code) noexcept {
  return (code >= opcode::less && code <= opcode::not_equal) || code == opcode::logical_not ||
         code == opcode::truth;
}

SWITCHYARD_FUNCTION bool address_finder::run() {
  run(0, program_.size());
  return !stack_.empty() && stack_.back();
}

SWITCHYARD_FUNCTION void address_finder::run(std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; ++at) {
    const instruction& step = program_[at];
    if (step.code == opcode::jump_if_zero) {
      // The two parts of a conditional. The first one ends in a jump over the second.
      stack_.pop_back();
      const std::size_t over = step.index - 1;
      run(at + 1, over);
      const bool first = stack_.back();
      stack_.pop_back();
      run(step.index, program_[over].index);
      stack_.back() = stack_.back() || first;
      at = program_[over].index - 1;
      continue;
    }
    if (step.from != operand::stack)
      stack_.push_back(step.from == operand::field && fields_[step.index].kind == value_kind::pointer);
    if (step.code == opcode::push) continue;
    bool made_of = stack_.back();
    if (operand_count(step.code) == 2) {
      stack_.pop_back();
      made_of = made_of || stack_.back();
    }
    stack_.back() = made_of && !is_truth(step.code);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
