// SPDX-License-Identifier: MIT
// Compiled expressions: postfix instructions, and the writer that folds constants while it emits them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <switchyard/expression/arithmetic.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

enum class operand : std::uint8_t { stack, constant, axis, attribute, field };

// One step of a program. An operator's last operand is on the stack, or is named in the same step.
struct instruction {
  opcode code = opcode::push;
  operand from = operand::constant;
  std::uint32_t index = 0;   // of an axis, field or attribute, or a jump's target
  std::int64_t integer = 0;  // a constant; a real program keeps the bits of a double here

  friend bool operator==(const instruction&, const instruction&) = default;
};

/// Emits a program. Operators of constants are folded at once. An operand that is pushed right before its
/// operator becomes part of that instruction.
class program_writer {
 public:
  explicit program_writer(bool real) : real_{real} {}

  [[nodiscard]] std::size_t size() const noexcept { return code_.size(); }
  [[nodiscard]] std::vector<instruction> take() noexcept { return std::move(code_); }

  void push(operand from, std::uint32_t index, std::int64_t integer) {
    code_.push_back({opcode::push, from, index, integer});
  }

  /// Returns the fault that folding meets. The operator then stays in the program, because a condition may
  /// keep it from being evaluated.
  fault operate(opcode code) {
    const auto operands = static_cast<std::size_t>(operand_count(code));
    if (!ends_in_constants(operands)) {
      emit(code);
      return fault::none;
    }
    const std::int64_t a = code_[code_.size() - operands].integer;
    const std::int64_t b = code_.back().integer;
    std::int64_t folded = 0;
    if (real_) {
      double value = 0;
      (void)apply(code, std::bit_cast<double>(a), std::bit_cast<double>(b), value);
      folded = std::bit_cast<std::int64_t>(value);
    } else if (const fault why = apply(code, a, b, folded); why != fault::none) {
      emit(code);
      return why;
    }
    code_.resize(code_.size() - operands);
    push(operand::constant, 0, folded);
    return fault::none;
  }

  /// Emits a jump, whose target land() sets, and begins a part that may not be evaluated.
  [[nodiscard]] std::size_t jump(opcode code) {
    code_.push_back({code, operand::stack});
    part_ = code_.size();
    return part_ - 1;
  }
  void land(std::size_t jump) {
    part_ = code_.size();
    code_[jump].index = static_cast<std::uint32_t>(part_);
  }

  /// Whether the last `count` values are constants of the same part.
  [[nodiscard]] bool ends_in_constants(std::size_t count) const noexcept {
    if (code_.size() < part_ + count) return false;
    for (std::size_t i = code_.size() - count; i < code_.size(); ++i) {
      if (code_[i].code != opcode::push || code_[i].from != operand::constant) return false;
    }
    return true;
  }

  /// Removes the constant condition that was pushed last and returns it.
  [[nodiscard]] bool take_condition() {
    const std::int64_t value = code_.back().integer;
    code_.pop_back();
    return real_ ? std::bit_cast<double>(value) != 0 : value != 0;
  }

  /// Runs `part` and removes what it emitted.
  template <class Part>
  void discard(const Part& part) {
    const std::size_t size = code_.size();
    const std::size_t begin = part_;
    part();
    code_.resize(size);
    part_ = begin;
  }

 private:
  void emit(opcode code) {
    if (operand_count(code) == 2 && code_.size() > part_ && code_.back().code == opcode::push) {
      code_.back().code = code;
    } else {
      code_.push_back({code, operand::stack});
    }
  }

  bool real_;
  std::size_t part_ = 0;  // where the last conditional part begins or ends; no jump leads past it
  std::vector<instruction> code_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
