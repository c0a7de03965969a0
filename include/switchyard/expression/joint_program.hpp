// SPDX-License-Identifier: MIT
// Integer expressions over the axes of one problem, compiled together: common subexpressions are evaluated
// once for a problem, the rest of each expression only when its value is needed.
//
// Straight code without a stack: both branches of a conditional are computed, and one is selected. If any
// branch faults, selected or not, the expression is evaluated by itself, so that values and faults are always
// those of expression::evaluate. build_joint_program.hpp builds programs.
//
// Immutable once built. Any number of threads may evaluate, each with values of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/evaluation.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

class joint_program {
 public:
  /// Constants, axes and operations of a program. Expressions beyond that are interpreted.
  static constexpr std::size_t max_registers = 512;

  /// The values of one problem, which must outlive them.
  class values {
   public:
    values(const joint_program& of, problem_view problem) noexcept : of_{of}, problem_{problem} {}
    values(const values&) = delete;
    values& operator=(const values&) = delete;

    /// The value of an expression, by its number.
    [[nodiscard]] integer_result of(std::uint32_t number) noexcept {
      if (!is_started_) start();  // what is never asked costs nothing
      const output& asked = of_.outputs_[number];
      if (is_sound_ && asked.result != interpreted && run(asked.begin, asked.end)) [[likely]]
        return {registers_[asked.result], fault::none};
      return of_.expressions_[number].evaluate({problem_, {}, {}, nullptr});
    }

   private:
    void start() noexcept {
      std::int64_t* to = registers_.data();
      for (const std::int64_t constant : of_.constants_) *to++ = constant;
      for (const std::uint32_t axis : of_.axes_) *to++ = problem_[axis];
      is_sound_ = run(0, of_.shared_);
      is_started_ = true;
    }

    /// Executes steps; false where one of them has a fault.
    [[nodiscard]] bool run(std::uint32_t begin, std::uint32_t end) noexcept {
      std::int64_t* const registers = registers_.data();
      std::int64_t* to = registers + of_.constants_.size() + of_.axes_.size() + begin;
      unsigned faults = 0;
      for (std::uint32_t i = begin; i < end; ++i) {
        const step now = of_.steps_[i];
        const std::int64_t a = registers[now.a];
        const std::int64_t b = registers[now.b];
        std::int64_t out = 0;
        if (now.code == take_one) {
          out = registers[now.condition] != 0 ? a : b;
        } else {
          faults |= static_cast<unsigned>(detail::apply(now.code, a, b, out));
        }
        *to++ = out;
      }
      return faults == 0;
    }

    const joint_program& of_;
    problem_view problem_;
    bool is_started_ = false;
    bool is_sound_ = false;                              // no step that expressions share has a fault
    std::array<std::int64_t, max_registers> registers_;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  };

  /// How many expressions it has.
  [[nodiscard]] std::size_t size() const noexcept { return outputs_.size(); }

  /// An expression, by its number.
  [[nodiscard]] const expression& at(std::uint32_t number) const noexcept { return expressions_[number]; }

 private:
  friend class joint_program_builder;

  static constexpr detail::opcode take_one = detail::opcode::jump_if_zero;
  static constexpr std::uint32_t interpreted = 0xffffffffU;

  /// An operation. Its result's register is behind those of constants, axes and earlier steps.
  struct step {
    detail::opcode code = detail::opcode::push;
    std::uint16_t a = 0;
    std::uint16_t b = 0;          // as `a` where there is one operand
    std::uint16_t condition = 0;  // of take_one: `a` where it is not zero, else `b`
  };

  /// Steps of one expression alone, and the register of its value.
  struct output {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t result = interpreted;
  };

  std::vector<std::int64_t> constants_;
  std::vector<std::uint32_t> axes_;
  std::vector<step> steps_;
  std::uint32_t shared_ = 0;  // the first steps, which several expressions need
  std::vector<output> outputs_;
  std::vector<expression> expressions_;
};

}  // namespace v0
}  // namespace switchyard
