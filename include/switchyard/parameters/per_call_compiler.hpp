// SPDX-License-Identifier: MIT
// Compiles what is evaluated at each call: the per-call values of a launch into a per_call_program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/parameters/per_call_program.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Makes per-call programs. An expression is folded for a problem; what is left is compared with the forms
/// above.
class per_call_compiler {
 public:
  per_call_compiler(std::span<const per_call_value> per_call,
                    std::span<const field_description> fields) noexcept
      : per_call_{per_call}, fields_{fields} {}

  /// `axes` have what is known; the last `read` of them are those that per_call_programs tells programs by.
  [[nodiscard]] std::unique_ptr<per_call_program> compile(std::span<const axis_value> axes, std::size_t read,
                                                          std::span<const std::int64_t> attributes);

  /// The argument that an expression is, divided or multiplied by nothing but 1; no_index: it is something
  /// else.
  [[nodiscard]] static std::uint32_t field_alone(const expression& folded) noexcept;

  /// The axis that an expression is, or no_index.
  [[nodiscard]] static std::uint32_t axis_alone(const expression& folded) noexcept;

  /// Whether an integer of an argument's kind, as a parameter, has the same bytes whatever its value.
  [[nodiscard]] static bool same_bytes(value_kind argument, value_kind parameter) noexcept;

 private:
  using action = per_call_step::action;

  [[nodiscard]] static bool is_integer(value_kind kind) noexcept { return kind <= value_kind::u64; }

  [[nodiscard]] static bool is_constant(const instruction& step, opcode code) noexcept {
    return step.code == code && step.from == operand::constant;
  }
  [[nodiscard]] bool is_integer_field(const instruction& step, opcode code) const noexcept {
    return step.code == code && step.from == operand::field && is_integer(fields_[step.index].kind);
  }
  [[nodiscard]] bool is_wide_field(const instruction& step, opcode code) const noexcept {
    return is_integer_field(step, code) && size_of(fields_[step.index].kind) == 8;
  }

  void load(per_call_step& step, const instruction& from) const noexcept;

  /// Sets what a step does; leaves it to the interpreter where the program has no such form. False where
  /// nothing is left to do.
  [[nodiscard]] bool compile(std::span<const instruction> program, per_call_step& step,
                             per_call_program& out) const;

  void compile_field(const instruction& field, per_call_step& step) const noexcept;

  [[nodiscard]] bool compile_operation(const instruction& field, const instruction& operation,
                                       per_call_step& step) const noexcept;

  /// f < 0 ? c : min(f, c)
  [[nodiscard]] bool is_limit(std::span<const instruction> program) const noexcept;

  /// A sum of constants and of weights for 64-bit arguments that are not zero, none so large that a part of
  /// the sum could overflow.
  void compile_flags(std::span<const instruction> program, per_call_step& step, per_call_program& out) const;

  /// Fewer moves than this stay steps.
  static constexpr std::size_t least_moves = 3;

  /// Adds the moves or the limit that do a step. False where it is more than that.
  [[nodiscard]] static bool add_moves(std::array<std::vector<per_call_move>, per_call_moves::kinds>& into,
                                      std::vector<per_call_limit>& limits, const per_call_step& step);

  /// Makes moves and limits of the steps that are no more than that, where there are many.
  static void take_moves(per_call_program& out);

  /// Lengthens the last step by one that goes on where it ends. False where it does not.
  [[nodiscard]] static bool joined(std::vector<per_call_step>& steps, const per_call_step& next) noexcept;

  std::span<const per_call_value> per_call_;
  std::span<const field_description> fields_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/parameters/per_call_compiler_impl.hpp>
#endif
