// SPDX-License-Identifier: MIT
// Parses the text of an expression: recursive descent, which emits the program as it goes.
//
// `&&`, `||` and `?:` evaluate only the side they need. Text that is too long, too deep, wrongly spelled or
// certain to fault is refused with an expression_error that names the column.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/program.hpp>
#include <switchyard/expression/scanner.hpp>

namespace switchyard {
inline namespace v0 {

/// Parses one text, once.
class expression_parser {
 public:
  expression_parser(std::string_view text, const scope& names, bool real)
      : scan_{text}, length_{text.size()}, names_{names}, real_{real} {}

  [[nodiscard]] expression parse();

 private:
  using opcode = detail::opcode;
  using operand = detail::operand;

  [[noreturn]] void fail(const std::string& problem) const;
  [[nodiscard]] bool take(std::string_view token) noexcept { return scan_.take(token); }

  void push(operand from, std::uint32_t index, std::int64_t integer = 0);

  // A fault among constants is an error, unless a condition may keep it from being evaluated.
  void operate(opcode code);

  [[nodiscard]] std::size_t jump(opcode code);

  void check_length() const;

  // While it lives, what is parsed may never be evaluated.
  struct conditional {
    explicit conditional(expression_parser& parser) : parser_{parser} { ++parser_.conditional_; }
    ~conditional() { --parser_.conditional_; }
    conditional(const conditional&) = delete;
    conditional& operator=(const conditional&) = delete;
    expression_parser& parser_;
  };

  // Guards recursion: parentheses and unary operators nest without emitting code.
  struct nesting {
    explicit nesting(expression_parser& parser);
    ~nesting() { --parser_.nesting_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    expression_parser& parser_;
  };

  void ternary();

  // Removes the constant condition that was emitted last and returns it.
  [[nodiscard]] bool take_condition();

  // Parses a part that a constant condition rules out.
  template <class Part>
  void discard(const Part& part) {
    const std::size_t depth = depth_;
    const conditional dead{*this};
    to_.discard(part);
    depth_ = depth;
  }

  [[nodiscard]] bool constant_since(std::size_t start) const {
    return to_.size() == start + 1 && to_.ends_in_constants(1);
  }
  [[nodiscard]] std::int64_t literal(bool value) const {
    return real_ ? std::bit_cast<std::int64_t>(value ? 1.0 : 0.0) : static_cast<std::int64_t>(value);
  }

  // One function for all levels: each would compile what it calls, the scanner, once more.
  void logical(bool is_or);
  void infix(unsigned level);

  void unary();

  void primary();

  void name();

  void call(std::string_view function);

  detail::expression_scanner scan_;
  std::size_t length_;
  const scope& names_;
  bool real_;
  std::size_t depth_ = 0;
  std::size_t nesting_ = 0;
  std::size_t conditional_ = 0;
  detail::program_writer to_{real_};
};

inline expression expression::parse(std::string_view text, const scope& names) {
  return expression_parser{text, names, false}.parse();
}

inline expression expression::parse_real(std::string_view text, const scope& names) {
  return expression_parser{text, names, true}.parse();
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/parse_impl.hpp>
#endif
