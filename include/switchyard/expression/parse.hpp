// Parses the text of an expression: recursive descent, which emits the program as it goes.
//
// `&&`, `||` and `?:` evaluate only the side they need. Text that is too long, too deep, wrongly spelled or
// certain to fault is refused with an expression_error that names the column.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/text.hpp>
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

  [[nodiscard]] expression parse() {
    if (length_ > expression::max_text)
      fail("is longer than " + std::to_string(expression::max_text) + " characters");
    ternary();
    if (!scan_.at_end()) fail("unexpected '" + std::string(1, scan_.peek()) + "'");
    expression result;
    result.take(to_);
    return result;
  }

 private:
  using opcode = detail::opcode;
  using operand = detail::operand;

  [[noreturn]] void fail(const std::string& problem) const { scan_.fail(problem); }
  [[nodiscard]] bool take(std::string_view token) noexcept { return scan_.take(token); }

  void push(operand from, std::uint32_t index, std::int64_t integer = 0) {
    if (++depth_ > expression::max_depth) fail("is too deep");
    check_length();
    to_.push(from, index, integer);
  }

  // A fault among constants is an error, unless a condition may keep it from being evaluated.
  void operate(opcode code) {
    check_length();
    depth_ -= static_cast<std::size_t>(detail::operand_count(code)) - 1;
    const fault why = to_.operate(code);
    if (why != fault::none && conditional_ == 0) fail(std::string{to_string(why)});
  }

  [[nodiscard]] std::size_t jump(opcode code) {
    check_length();
    return to_.jump(code);
  }

  void check_length() const {
    if (to_.size() >= expression::max_instructions) fail("is too long");
  }

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
    explicit nesting(expression_parser& parser) : parser_{parser} {
      if (++parser_.nesting_ > expression::max_depth) parser_.fail("is nested too deeply");
    }
    ~nesting() { --parser_.nesting_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    expression_parser& parser_;
  };

  void ternary() {
    const nesting guard{*this};
    const std::size_t start = to_.size();
    logical_or();
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

  // Removes the constant condition that was emitted last and returns it.
  [[nodiscard]] bool take_condition() {
    --depth_;
    return to_.take_condition();
  }

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

  // a && b: a; jump_if_zero no; b; truth; jump end; no: 0; end.     a || b: a; jump_if_zero rest; 1; jump
  // end; ...
  template <class Part>
  void short_circuit(std::string_view token, bool stops_at, const Part& part) {
    const std::size_t start = to_.size();
    part();
    while (take(token)) {
      if (constant_since(start)) {
        if (take_condition() == stops_at) {
          discard(part);
          push(operand::constant, 0, literal(stops_at));
        } else {
          part();
          operate(opcode::truth);
        }
        continue;
      }
      const std::size_t test = jump(opcode::jump_if_zero);
      --depth_;
      std::size_t over = 0;
      if (stops_at) {
        to_.push(operand::constant, 0, literal(true));
        over = jump(opcode::jump);
        to_.land(test);
      }
      const conditional right_side{*this};
      part();
      operate(opcode::truth);
      if (!stops_at) {
        over = jump(opcode::jump);
        to_.land(test);
        to_.push(operand::constant, 0, literal(false));
      }
      to_.land(over);
    }
  }

  void logical_or() {
    short_circuit("||", true, [this] { logical_and(); });
  }
  void logical_and() {
    short_circuit("&&", false, [this] { equality(); });
  }

  void equality() {
    comparison();
    for (;;) {
      const opcode code = take("==") ? opcode::equal : take("!=") ? opcode::not_equal : opcode::jump;
      if (code == opcode::jump) return;
      comparison();
      operate(code);
    }
  }

  void comparison() {
    shift();
    for (;;) {
      const opcode code = take("<=")   ? opcode::less_equal
                          : take(">=") ? opcode::greater_equal
                          : take("<")  ? opcode::less
                          : take(">")  ? opcode::greater
                                       : opcode::jump;
      if (code == opcode::jump) return;
      shift();
      operate(code);
    }
  }

  void shift() {
    sum();
    while (!real_) {
      const opcode code = take("<<") ? opcode::shift_left : take(">>") ? opcode::shift_right : opcode::jump;
      if (code == opcode::jump) return;
      sum();
      operate(code);
    }
  }

  void sum() {
    product();
    for (;;) {
      const opcode code = take("+") ? opcode::add : take("-") ? opcode::subtract : opcode::jump;
      if (code == opcode::jump) return;
      product();
      operate(code);
    }
  }

  void product() {
    unary();
    for (;;) {
      const opcode code = take("*")             ? opcode::multiply
                          : take("/")           ? opcode::divide
                          : !real_ && take("%") ? opcode::modulo
                                                : opcode::jump;
      if (code == opcode::jump) return;
      unary();
      operate(code);
    }
  }

  void unary() {
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

  void primary() {
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

  void name() {
    const std::size_t start = scan_.position();
    const std::string_view word = scan_.word();
    if (take("(")) return call(word);
    const symbol* meaning = names_.find(word);
    if (meaning == nullptr) {
      scan_.fail_at(start,
                    "'" + std::string{word} + "' names nothing" + text::suggestion(word, names_.names()));
    }
    if (meaning->ambiguous) {
      scan_.fail_at(start, "'" + std::string{word} +
                               "' is an enumerator of several axes with different values; write the number");
    }
    switch (meaning->from) {
      case symbol::source::constant:
        return push(
            operand::constant, 0,
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

  void call(std::string_view function) {
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
                                                     {"sqrt", opcode::square_root, true, false},
                                                     {"log2", opcode::logarithm2, true, false},
                                                     {"exp2", opcode::power2, true, false}}};
    for (const known& candidate : functions) {
      if (candidate.name != function || (real_ ? candidate.integer_only : candidate.real_only)) continue;
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
    std::vector<std::string_view> names;
    for (const known& candidate : functions) names.push_back(candidate.name);
    fail("no function '" + std::string{function} + "'" + text::suggestion(function, names));
  }

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
