// SPDX-License-Identifier: MIT
// The bodies of parse.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/expression/program.hpp>
#include <switchyard/expression/scanner.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION expression expression_parser::parse() {
  if (length_ > expression::max_text)
    fail("is longer than " + std::to_string(expression::max_text) + " characters");
  ternary();
  if (!scan_.at_end()) fail("unexpected '" + std::string(1, scan_.peek()) + "'");
  expression result;
  result.take(to_);
  return result;
}

SWITCHYARD_FUNCTION void expression_parser::fail(const std::string& problem) const {
  scan_.fail(problem);
}

SWITCHYARD_FUNCTION void expression_parser::push(operand from, std::uint32_t index, std::int64_t integer) {
  if (++depth_ > expression::max_depth) fail("is too deep");
  check_length();
  to_.push(from, index, integer);
}

SWITCHYARD_FUNCTION void expression_parser::operate(opcode code) {
  check_length();
  depth_ -= static_cast<std::size_t>(detail::operand_count(code)) - 1;
  const fault why = to_.operate(code);
  if (why != fault::none && conditional_ == 0) fail(std::string{to_string(why)});
}

SWITCHYARD_FUNCTION std::size_t expression_parser::jump(opcode code) {
  check_length();
  return to_.jump(code);
}

SWITCHYARD_FUNCTION void expression_parser::check_length() const {
  if (to_.size() >= expression::max_instructions) fail("is too long");
}

SWITCHYARD_FUNCTION expression_parser::nesting::nesting(expression_parser& parser) : parser_{parser} {
  if (++parser_.nesting_ > expression::max_depth) parser_.fail("is nested too deeply");
}

SWITCHYARD_FUNCTION void expression_parser::ternary() {
  const nesting guard{*this};
  const std::size_t start = to_.size();
  logical(true);
  if (!take("?")) return;
  const auto branch = [this] { ternary(); };
  const auto colon = [this] {
    if (!take(":")) fail("expected ':'");
  };
  if (constant_since(start)) {
    if (take_condition()) {
      branch();
      colon();
      discard(branch);
    } else {
      discard(branch);
      colon();
      branch();
    }
    return;
  }
  const conditional both{*this};
  const std::size_t test = jump(opcode::jump_if_zero);
  --depth_;
  branch();
  --depth_;
  colon();
  const std::size_t over = jump(opcode::jump);
  to_.land(test);
  branch();
  to_.land(over);
}

SWITCHYARD_FUNCTION bool expression_parser::take_condition() {
  --depth_;
  return to_.take_condition();
}

// a && b: a; jump_if_zero no; b; truth; jump end; no: 0; end.     a || b: a; jump_if_zero rest; 1; jump
// end; ...
[[gnu::noinline]] SWITCHYARD_FUNCTION void expression_parser::logical(bool is_or) {
  const auto part = [this, is_or] {
    if (is_or) {
      logical(false);
    } else {
      infix(0);
    }
  };
  const std::size_t start = to_.size();
  part();
  while (take(is_or ? "||" : "&&")) {
    if (constant_since(start)) {
      if (take_condition() == is_or) {
        discard(part);
        push(operand::constant, 0, literal(is_or));
      } else {
        part();
        operate(opcode::truth);
      }
      continue;
    }
    const std::size_t test = jump(opcode::jump_if_zero);
    --depth_;
    std::size_t over = 0;
    if (is_or) {
      to_.push(operand::constant, 0, literal(true));
      over = jump(opcode::jump);
      to_.land(test);
    }
    const conditional right_side{*this};
    part();
    operate(opcode::truth);
    if (!is_or) {
      over = jump(opcode::jump);
      to_.land(test);
      to_.push(operand::constant, 0, literal(false));
    }
    to_.land(over);
  }
}

[[gnu::noinline]] SWITCHYARD_FUNCTION void expression_parser::infix(unsigned level) {
  struct known {
    std::string_view token;
    opcode code;
    unsigned level;
    bool integer_only;
  };
  static constexpr unsigned levels = 5;
  static constexpr std::array<known, 13> operators{{{"==", opcode::equal, 0, false},
                                                    {"!=", opcode::not_equal, 0, false},
                                                    {"<=", opcode::less_equal, 1, false},  // before "<"
                                                    {">=", opcode::greater_equal, 1, false},
                                                    {"<", opcode::less, 1, false},
                                                    {">", opcode::greater, 1, false},
                                                    {"<<", opcode::shift_left, 2, true},
                                                    {">>", opcode::shift_right, 2, true},
                                                    {"+", opcode::add, 3, false},
                                                    {"-", opcode::subtract, 3, false},
                                                    {"*", opcode::multiply, 4, false},
                                                    {"/", opcode::divide, 4, false},
                                                    {"%", opcode::modulo, 4, true}}};
  if (level == levels) return unary();
  infix(level + 1);
  const auto next = [this, level]() -> const known* {
    for (const known& candidate : operators) {
      if (candidate.level == level && !(real_ && candidate.integer_only) && take(candidate.token))
        return &candidate;
    }
    return nullptr;
  };
  for (const known* found = next(); found != nullptr; found = next()) {
    infix(level + 1);
    operate(found->code);
  }
}

SWITCHYARD_FUNCTION void expression_parser::unary() {
  const nesting guard{*this};
  if (take("-")) {
    unary();
    operate(opcode::negate);
  } else if (take("!")) {
    unary();
    operate(opcode::logical_not);
  } else {
    primary();
  }
}

SWITCHYARD_FUNCTION void expression_parser::primary() {
  if (scan_.at_end()) fail("expected a number, a name or '('");
  if (take("(")) {
    ternary();
    if (!take(")")) fail("expected ')'");
    return;
  }
  const char first = scan_.peek();
  if (detail::expression_scanner::is_digit(first) || (real_ && first == '.')) {
    return push(operand::constant, 0, real_ ? std::bit_cast<std::int64_t>(scan_.real()) : scan_.integer());
  }
  if (detail::expression_scanner::is_letter(first)) return name();
  fail("expected a number, a name or '('");
}

SWITCHYARD_FUNCTION void expression_parser::name() {
  const std::size_t start = scan_.position();
  const std::string_view word = scan_.word();
  if (take("(")) return call(word);
  const symbol* meaning = names_.find(word);
  if (meaning == nullptr) {
    scan_.fail_at(start, "unknown name '" + std::string{word} + "'" + text::suggestion(word, names_.names()));
  }
  if (meaning->ambiguous) {
    scan_.fail_at(start, "'" + std::string{word} +
                             "' is an enumerator of several axes with different values; write the number");
  }
  switch (meaning->from) {
    case symbol::source::constant:
      return push(operand::constant, 0,
                  real_ ? std::bit_cast<std::int64_t>(static_cast<double>(meaning->value)) : meaning->value);
    case symbol::source::real_constant:
      if (!real_)
        scan_.fail_at(start, "'" + std::string{word} + "' is real; this expression is an integer one");
      return push(operand::constant, 0, std::bit_cast<std::int64_t>(meaning->real));
    case symbol::source::axis:
      return push(operand::axis, meaning->index);
    case symbol::source::field:
      return push(operand::field, meaning->index);
    case symbol::source::attribute:
      return push(operand::attribute, meaning->index);
  }
}

SWITCHYARD_FUNCTION void expression_parser::call(std::string_view function) {
  struct known {
    std::string_view name;
    opcode code;
    bool real_only;
    bool integer_only;
  };
  static constexpr std::array<known, 8> functions{{{"min", opcode::minimum, false, false},
                                                   {"max", opcode::maximum, false, false},
                                                   {"ceil_div", opcode::ceil_div, false, true},
                                                   {"round_up", opcode::round_up, false, true},
                                                   {"next_pow2", opcode::next_pow2, false, true},
                                                   {"sqrt", opcode::square_root, false, false},
                                                   {"log2", opcode::logarithm2, true, false},
                                                   {"exp2", opcode::power2, true, false}}};
  std::vector<std::string_view> names;
  for (const known& candidate : functions) {
    const bool is_of_others = real_ ? candidate.integer_only : candidate.real_only;
    if (!is_of_others) names.push_back(candidate.name);
    if (candidate.name != function) continue;
    if (is_of_others)
      fail("'" + std::string{function} + "' is a function of " + (real_ ? "integer" : "real") +
           " expressions");
    int count = 1;
    ternary();
    while (take(",")) {
      ternary();
      ++count;
    }
    if (!take(")")) fail("expected ')'");
    const int expected = detail::operand_count(candidate.code);
    if (count != expected) {
      fail("'" + std::string{function} + "' takes " + std::to_string(expected) + " arguments, got " +
           std::to_string(count));
    }
    return operate(candidate.code);
  }
  fail("no function '" + std::string{function} + "'" + text::suggestion(function, names));
}

}  // namespace v0
}  // namespace switchyard
