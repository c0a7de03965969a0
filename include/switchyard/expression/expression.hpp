// SPDX-License-Identifier: MIT
// One expression of a manifest or a table: a grid, a condition, a cost, a workspace size or a kernel
// parameter.
//
// An expression is parsed once into a short postfix program with its constants folded. It is then evaluated
// against the values of one call, without allocation. Integer expressions are 64-bit; overflow, division by
// zero and shifts out of range are reported as faults. Real expressions are double and serve scalar kernel
// parameters only.
//
// Any number of threads may evaluate one expression. parse.hpp defines expression::parse: include it to read
// text, not to evaluate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/evaluation.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {

class scope;

class expression {
 public:
  /// Longest text, most instructions and deepest stack an expression may have.
  static constexpr std::size_t max_text = 4096;
  static constexpr std::size_t max_instructions = 512;
  static constexpr std::size_t max_depth = 48;

  expression() = default;

  /// A constant.
  explicit expression(std::int64_t value)
      : single_{detail::opcode::push, detail::operand::constant, 0, value} {}

  /// Parses an integer expression. Throws expression_error.
  [[nodiscard]] static expression parse(std::string_view text, const scope& names);

  /// Parses a real expression. It adds decimal literals, log2 and exp2, does not round sqrt, and has no %, <<
  /// and >>. Throws expression_error.
  [[nodiscard]] static expression parse_real(std::string_view text, const scope& names);

  [[nodiscard]] bool is_constant() const noexcept {
    return steps_.empty() && single_.from == detail::operand::constant;
  }
  /// Whether it reads an argument of the call, which no axis holds.
  [[nodiscard]] bool reads_fields() const noexcept;

  /// Calls `visit(index)` once for each mention of an argument.
  template <class Visitor>
  void for_each_field(const Visitor& visit) const {
    for (const detail::instruction& step : program()) {
      if (step.from == detail::operand::field) visit(step.index);
    }
  }
  [[nodiscard]] bool reads_attributes() const noexcept;
  /// Whether it reads an axis, by its index.
  [[nodiscard]] bool reads_axis(std::uint32_t index) const noexcept;
  /// Expressions read none but the first so many axes.
  static constexpr std::size_t max_axes_read = 64;

  /// The axes that it reads, a bit each.
  [[nodiscard]] std::uint64_t axes_read() const noexcept;

  /// Value of an integer expression.
  [[nodiscard]] integer_result evaluate(const evaluation& values) const noexcept {
    integer_result out;
    out.why = run(values, out.value);
    return out;
  }

  /// Value of a real expression.
  [[nodiscard]] double evaluate_real(const evaluation& values) const noexcept {
    double out = 0;
    (void)run(values, out);
    return out;
  }

  /// Specializes an integer expression for known axis values and a device's attributes. Only what depends on
  /// other axes and on arguments is left to evaluate.
  [[nodiscard]] expression fold(std::span<const axis_value> axes,
                                std::span<const std::int64_t> attributes) const;

  /// Its steps, for a compiler of its own.
  [[nodiscard]] std::span<const detail::instruction> program() const noexcept {
    return steps_.empty() ? std::span{&single_, 1} : std::span{steps_};
  }

  /// Whether both have the same program.
  friend bool operator==(const expression&, const expression&) = default;

 private:
  friend class expression_parser;

  struct part {
    std::size_t begin;
    std::size_t end;
  };

  template <class Value>
  [[nodiscard, gnu::noinline]] fault run(const evaluation& values, Value& out) const noexcept {
    // `top` holds the topmost value and `stack` those under it; the first push stores a `top` that nobody
    // reads.
    std::array<Value, max_depth + 1> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
    std::size_t under = 0;
    Value top = 0;
    const detail::instruction* const begin = program().data();
    const detail::instruction* const end = begin + program().size();
    for (const detail::instruction* step = begin; step != end; ++step) {
      Value last = top;
      if (step->from != detail::operand::stack) {
        last = detail::load_operand<Value>(*step, values);
        if (step->code == detail::opcode::push) {
          stack[under++] = top;
          top = last;
          continue;
        }
      } else if (step->code >= detail::opcode::jump) {
        if (step->code == detail::opcode::jump_if_zero) top = stack[--under];
        if (step->code == detail::opcode::jump || last == 0) step = begin + step->index - 1;
        continue;
      } else if (detail::operand_count(step->code) == 2) {
        top = stack[--under];
      }
      if (const fault why = detail::apply(step->code, top, last, top); why != fault::none) return why;
    }
    out = top;
    return fault::none;
  }

  void fold_part(part range, std::span<const axis_value> axes, std::span<const std::int64_t> attributes,
                 detail::program_writer& to) const;

  static void push_known(const detail::instruction& step, std::span<const axis_value> axes,
                         std::span<const std::int64_t> attributes, detail::program_writer& to);

  void take(detail::program_writer& from);

  // A constant, an axis or an argument alone, which most expressions are, is kept without an allocation.
  std::vector<detail::instruction> steps_;
  detail::instruction single_;  // where there are no steps; else as it was made
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/expression_impl.hpp>
#endif
