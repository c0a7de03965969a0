// The expressions of manifests: grids, conditions, workspace sizes and kernel parameters.
//
// An expression is parsed once into a short postfix program with its constants folded, and then evaluated
// against the values of one call without allocation. Integer expressions are 64-bit; overflow, division by
// zero and shifts out of range are faults, reported and never computed around. Real expressions are double
// and serve scalar kernel parameters only. `&&`, `||` and `?:` evaluate only the side they need.
#pragma once

#include <array>
#include <bit>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/text.hpp>

namespace switchyard::inline v0 {

/// What is wrong with an expression's text, with its column.
class expression_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Why an evaluation has no value.
enum class fault : std::uint8_t { none, overflow, division_by_zero, out_of_range };

[[nodiscard]] constexpr std::string_view to_string(fault why) noexcept {
  constexpr std::array<std::string_view, 4> names{"none", "overflows 64 bits", "divides by zero",
                                                  "takes a function or a shift out of its range"};
  return names[static_cast<std::size_t>(why)];
}

struct integer_result {
  std::int64_t value = 0;
  fault why = fault::none;
};

/// What a name in an expression stands for.
struct symbol {
  enum class source : std::uint8_t { constant, real_constant, axis, field, attribute };
  source from = source::constant;
  std::uint32_t index = 0;  ///< of the axis, field or attribute
  std::int64_t value = 0;   ///< of a constant
  double real = 0;          ///< of a real constant
  bool ambiguous = false;   ///< two axes give this enumerator name different values
};

/// The names an expression may use. Later additions hide earlier ones.
class scope {
 public:
  void add(std::string_view name, symbol meaning) { names_.push_back({std::string{name}, meaning}); }
  void add_constant(std::string_view name, std::int64_t value) {
    add(name, {symbol::source::constant, 0, value, static_cast<double>(value), false});
  }
  void add_enumerator(std::string_view name, std::int64_t value) {
    for (auto& entry : names_) {
      if (entry.name == name) {
        if (entry.meaning.from == symbol::source::constant && entry.meaning.value != value) {
          entry.meaning.ambiguous = true;
        }
        return;
      }
    }
    add_constant(name, value);
  }
  [[nodiscard]] const symbol* find(std::string_view name) const noexcept {
    for (std::size_t i = names_.size(); i-- > 0;) {
      if (names_[i].name == name) return &names_[i].meaning;
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> all;
    for (const auto& entry : names_) all.push_back(entry.name);
    return all;
  }
  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  /// Forgets what was added after there were `size` names.
  void truncate(std::size_t size) { names_.resize(size); }

 private:
  struct named {
    std::string name;
    symbol meaning;
  };
  std::vector<named> names_;
};

/// The values an evaluation reads.
struct evaluation {
  problem_view axes;
  std::span<const std::int64_t> attributes;
  std::span<const field_description> fields;
  const std::byte* arguments = nullptr;  ///< the call's argument struct; not read when no field is named
};

namespace detail {

template <class Value>
[[nodiscard]] inline Value load_as(const std::byte* address) noexcept {
  Value value;
  // An expression that reads a field is evaluated with arguments: the planner sees to it.
  // NOLINTNEXTLINE(clang-analyzer-unix.cstring.NullArg)
  __builtin_memcpy(&value, address, sizeof value);
  return value;
}

[[nodiscard]] inline std::int64_t load_integer(const std::byte* address, value_kind kind) noexcept {
  switch (kind) {
    case value_kind::i8:
      return load_as<std::int8_t>(address);
    case value_kind::u8:
      return load_as<std::uint8_t>(address);
    case value_kind::i16:
      return load_as<std::int16_t>(address);
    case value_kind::u16:
    case value_kind::f16:
    case value_kind::bf16:
      return load_as<std::uint16_t>(address);
    case value_kind::i32:
      return load_as<std::int32_t>(address);
    case value_kind::u32:
      return load_as<std::uint32_t>(address);
    case value_kind::f32: {
      const float value = load_as<float>(address);
      return value >= -9.2e18F && value <= 9.2e18F ? static_cast<std::int64_t>(value) : 0;
    }
    case value_kind::f64: {
      const double value = load_as<double>(address);
      return value >= -9.2e18 && value <= 9.2e18 ? static_cast<std::int64_t>(value) : 0;
    }
    case value_kind::pointer:
    case value_kind::i64:
    case value_kind::u64:
      break;
  }
  return load_as<std::int64_t>(address);
}

[[nodiscard]] inline double load_real(const std::byte* address, value_kind kind) noexcept {
  if (kind == value_kind::f32) return static_cast<double>(load_as<float>(address));
  if (kind == value_kind::f64) return load_as<double>(address);
  return static_cast<double>(load_integer(address, kind));
}

enum class opcode : std::uint8_t {
  constant,
  axis,
  field,
  attribute,  // push
  add,
  subtract,
  multiply,
  divide,
  modulo,
  shift_left,
  shift_right,  // pop two, push one
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  minimum,
  maximum,
  ceil_div,
  round_up,
  negate,
  logical_not,
  truth,
  next_pow2,
  square_root,
  logarithm2,
  power2,  // pop one, push one
  jump,
  jump_if_zero,  // jump_if_zero pops
};

struct instruction {
  opcode code = opcode::constant;
  std::uint32_t index = 0;   // of an axis, field or attribute, or a jump's target
  std::int64_t integer = 0;  // a constant; a real program keeps the bits of a double here
};

[[nodiscard]] constexpr int operand_count(opcode code) noexcept {
  if (code <= opcode::attribute) return 0;
  if (code <= opcode::round_up) return 2;
  return 1;
}

[[nodiscard]] inline integer_result apply(opcode code, std::int64_t a, std::int64_t b) noexcept {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t out = 0;
  switch (code) {
    case opcode::add:
      return __builtin_add_overflow(a, b, &out) ? integer_result{0, fault::overflow} : integer_result{out};
    case opcode::subtract:
      return __builtin_sub_overflow(a, b, &out) ? integer_result{0, fault::overflow} : integer_result{out};
    case opcode::multiply:
      return __builtin_mul_overflow(a, b, &out) ? integer_result{0, fault::overflow} : integer_result{out};
    case opcode::divide:
    case opcode::modulo:
      if (b == 0) return {0, fault::division_by_zero};
      if (a == lowest && b == -1) return {0, fault::overflow};
      return {code == opcode::divide ? a / b : a % b};
    case opcode::shift_left:
      if (b < 0 || b > 62) return {0, fault::out_of_range};
      return __builtin_mul_overflow(a, std::int64_t{1} << b, &out) ? integer_result{0, fault::overflow}
                                                                   : integer_result{out};
    case opcode::shift_right:
      if (b < 0 || b > 63) return {0, fault::out_of_range};
      return {a >> b};
    case opcode::less:
      return {a < b};
    case opcode::less_equal:
      return {a <= b};
    case opcode::greater:
      return {a > b};
    case opcode::greater_equal:
      return {a >= b};
    case opcode::equal:
      return {a == b};
    case opcode::not_equal:
      return {a != b};
    case opcode::minimum:
      return {a < b ? a : b};
    case opcode::maximum:
      return {a > b ? a : b};
    case opcode::ceil_div:
    case opcode::round_up: {
      if (b == 0) return {0, fault::division_by_zero};
      if (b < 0 || a < 0) return {0, fault::out_of_range};
      const std::int64_t quotient = a / b + (a % b != 0 ? 1 : 0);
      if (code == opcode::ceil_div) return {quotient};
      return __builtin_mul_overflow(quotient, b, &out) ? integer_result{0, fault::overflow}
                                                       : integer_result{out};
    }
    case opcode::negate:
      return a == lowest ? integer_result{0, fault::overflow} : integer_result{-a};
    case opcode::logical_not:
      return {a == 0};
    case opcode::truth:
      return {a != 0};
    case opcode::next_pow2:
      if (a > (std::int64_t{1} << 62)) return {0, fault::overflow};
      return {a <= 1 ? 1 : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(a)))};
    default:
      return {0, fault::out_of_range};
  }
}

[[nodiscard]] inline double apply(opcode code, double a, double b) noexcept {
  switch (code) {
    case opcode::add:
      return a + b;
    case opcode::subtract:
      return a - b;
    case opcode::multiply:
      return a * b;
    case opcode::divide:
      return a / b;
    case opcode::less:
      return a < b ? 1 : 0;
    case opcode::less_equal:
      return a <= b ? 1 : 0;
    case opcode::greater:
      return a > b ? 1 : 0;
    case opcode::greater_equal:
      return a >= b ? 1 : 0;
    case opcode::equal:
      return a == b ? 1 : 0;
    case opcode::not_equal:
      return a != b ? 1 : 0;
    case opcode::minimum:
      return a < b ? a : b;
    case opcode::maximum:
      return a > b ? a : b;
    case opcode::negate:
      return -a;
    case opcode::logical_not:
      return a == 0 ? 1 : 0;
    case opcode::truth:
      return a != 0 ? 1 : 0;
    case opcode::square_root:
      return __builtin_sqrt(a);
    case opcode::logarithm2:
      return __builtin_log2(a);
    case opcode::power2:
      return __builtin_exp2(a);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace detail

class expression {
 public:
  /// Longest text, most instructions and deepest stack an expression may have.
  static constexpr std::size_t max_text = 4096;
  static constexpr std::size_t max_instructions = 512;
  static constexpr std::size_t max_depth = 48;

  expression() = default;

  /// A constant.
  explicit expression(std::int64_t value) : program_{{detail::opcode::constant, 0, value}} {}

  /// Parses an integer expression. Throws expression_error.
  [[nodiscard]] static expression parse(std::string_view text, const scope& names);

  /// Parses a real expression: decimal literals, sqrt, log2 and exp2 join; %, << and >> are left out.
  [[nodiscard]] static expression parse_real(std::string_view text, const scope& names);

  [[nodiscard]] bool is_constant() const noexcept {
    return program_.size() == 1 && program_[0].code == detail::opcode::constant;
  }
  /// Whether it reads arguments of the single call that no axis holds.
  [[nodiscard]] bool reads_fields() const noexcept {
    bool any = false;
    for_each_field([&any](std::uint32_t) { any = true; });
    return any;
  }

  /// Calls `visit(index)` for each argument that it may read, as often as it names it.
  template <class Visitor>
  void for_each_field(const Visitor& visit) const {
    for (const detail::instruction& step : program_) {
      if (step.code == detail::opcode::field) visit(step.index);
    }
  }
  [[nodiscard]] bool reads_attributes() const noexcept {
    for (const detail::instruction& step : program_) {
      if (step.code == detail::opcode::attribute) return true;
    }
    return false;
  }
  /// Whether it reads an axis, by its index.
  [[nodiscard]] bool reads_axis(std::uint32_t index) const noexcept {
    for (const detail::instruction& step : program_) {
      if (step.code == detail::opcode::axis && step.index == index) return true;
    }
    return false;
  }

  /// Value of an integer expression.
  [[nodiscard]] integer_result evaluate(const evaluation& values) const noexcept {
    if (is_constant()) return {program_[0].integer};
    std::array<std::int64_t, max_depth + 1>
        stack;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
    std::size_t top = 0;
    for (std::size_t at = 0; at < program_.size(); ++at) {
      const detail::instruction& step = program_[at];
      switch (step.code) {
        case detail::opcode::constant:
          stack[top++] = step.integer;
          break;
        case detail::opcode::axis:
          stack[top++] = values.axes[step.index];
          break;
        case detail::opcode::attribute:
          stack[top++] = values.attributes[step.index];
          break;
        case detail::opcode::field: {
          const field_description& field = values.fields[step.index];
          stack[top++] = detail::load_integer(values.arguments + field.offset, field.kind);
          break;
        }
        case detail::opcode::jump:
          at = step.index - 1;
          break;
        case detail::opcode::jump_if_zero:
          if (stack[--top] == 0) at = step.index - 1;
          break;
        default: {
          const bool binary = detail::operand_count(step.code) == 2;
          const std::int64_t b = binary ? stack[--top] : 0;
          const integer_result result = detail::apply(step.code, stack[top - 1], b);
          if (result.why != fault::none) return result;
          stack[top - 1] = result.value;
        }
      }
    }
    return {stack[0]};
  }

  /// Value of a real expression.
  [[nodiscard]] double evaluate_real(const evaluation& values) const noexcept {
    std::array<double, max_depth + 1> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
    std::size_t top = 0;
    for (std::size_t at = 0; at < program_.size(); ++at) {
      const detail::instruction& step = program_[at];
      switch (step.code) {
        case detail::opcode::constant:
          stack[top++] = std::bit_cast<double>(step.integer);
          break;
        case detail::opcode::axis:
          stack[top++] = static_cast<double>(values.axes[step.index]);
          break;
        case detail::opcode::attribute:
          stack[top++] = static_cast<double>(values.attributes[step.index]);
          break;
        case detail::opcode::field: {
          const field_description& field = values.fields[step.index];
          stack[top++] = detail::load_real(values.arguments + field.offset, field.kind);
          break;
        }
        case detail::opcode::jump:
          at = step.index - 1;
          break;
        case detail::opcode::jump_if_zero:
          if (stack[--top] == 0) at = step.index - 1;
          break;
        default: {
          const bool binary = detail::operand_count(step.code) == 2;
          const double b = binary ? stack[--top] : 0;
          stack[top - 1] = detail::apply(step.code, stack[top - 1], b);
        }
      }
    }
    return stack[0];
  }

 private:
  friend class expression_parser;

  std::vector<detail::instruction> program_{{}};
};

/// Recursive descent over one expression's text, emitting postfix code as it goes.
class expression_parser {
 public:
  expression_parser(std::string_view text, const scope& names, bool real)
      : text_{text}, names_{names}, real_{real} {}

  [[nodiscard]] expression parse() {
    if (text_.size() > expression::max_text)
      fail("is longer than " + std::to_string(expression::max_text) + " characters");
    code_.clear();
    ternary();
    skip_space();
    if (at_ != text_.size()) fail("unexpected '" + std::string{text_.substr(at_, 1)} + "'");
    expression result;
    result.program_ = std::move(code_);
    return result;
  }

 private:
  using opcode = detail::opcode;

  [[noreturn]] void fail(const std::string& what) const {
    throw expression_error{"'" + text::shortened(text_, 80) + "': column " + std::to_string(at_ + 1) + ": " +
                           text::shortened(what, 300)};
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  [[nodiscard]] bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    const char next = at_ + token.size() < text_.size() ? text_[at_ + token.size()] : '\0';
    if ((token == "<" || token == ">") && (next == '=' || next == token[0])) return false;
    if (token == "!" && next == '=') return false;
    at_ += token.size();
    return true;
  }

  void emit(opcode code, std::uint32_t index = 0, std::int64_t integer = 0) {
    if (code_.size() >= expression::max_instructions) fail("is too long");
    code_.push_back({code, index, integer});
  }

  void push(opcode code, std::uint32_t index, std::int64_t integer = 0) {
    if (++depth_ > expression::max_depth) fail("is too deep");
    emit(code, index, integer);
  }

  // An operator whose operands are the constants emitted last is computed now. A jump's target never lies
  // between them: code_from_ marks the end of the last conditional part. A fault among constants is an error,
  // unless a condition may keep it from being met.
  void operate(opcode code) {
    const auto operands = static_cast<std::size_t>(detail::operand_count(code));
    const std::size_t size = code_.size();
    bool constant = size >= operands && size - operands >= code_from_;
    for (std::size_t i = 0; constant && i < operands; ++i)
      constant = code_[size - 1 - i].code == opcode::constant;
    depth_ -= operands - 1;
    if (!constant) return emit(code);
    const std::int64_t a = code_[size - operands].integer;
    const std::int64_t b = operands == 2 ? code_[size - 1].integer : 0;
    std::int64_t folded = 0;
    if (real_) {
      folded = std::bit_cast<std::int64_t>(
          detail::apply(code, std::bit_cast<double>(a), std::bit_cast<double>(b)));
    } else {
      const integer_result value = detail::apply(code, a, b);
      if (value.why != fault::none) {
        if (conditional_ > 0) return emit(code);
        fail(std::string{to_string(value.why)});
      }
      folded = value.value;
    }
    code_.resize(size - operands);
    emit(opcode::constant, 0, folded);
  }

  // While it lives, what is parsed may stay without being evaluated.
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
    const std::size_t start = code_.size();
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
    const std::size_t test = code_.size();
    emit(opcode::jump_if_zero);
    --depth_;
    code_from_ = code_.size();
    branch();
    --depth_;
    colon();
    const std::size_t over = code_.size();
    emit(opcode::jump);
    land(test);
    branch();
    land(over);
  }

  // Lets a jump lead here.
  void land(std::size_t jump) {
    code_[jump].index = static_cast<std::uint32_t>(code_.size());
    code_from_ = code_.size();
  }

  // Takes the constant condition that was emitted last.
  [[nodiscard]] bool take_condition() {
    const bool value = truthy(code_.back());
    code_.pop_back();
    --depth_;
    return value;
  }

  // Parses what a constant condition keeps from being evaluated.
  template <class Part>
  void discard(const Part& part) {
    const std::size_t size = code_.size();
    const std::size_t from = code_from_;
    const std::size_t depth = depth_;
    const conditional dead{*this};
    part();
    code_.resize(size);
    code_from_ = from;
    depth_ = depth;
  }

  [[nodiscard]] bool constant_since(std::size_t start) const {
    return code_.size() == start + 1 && code_.back().code == opcode::constant && start >= code_from_;
  }
  [[nodiscard]] bool truthy(const detail::instruction& step) const {
    return real_ ? std::bit_cast<double>(step.integer) != 0 : step.integer != 0;
  }
  [[nodiscard]] std::int64_t literal(bool value) const {
    return real_ ? std::bit_cast<std::int64_t>(value ? 1.0 : 0.0) : static_cast<std::int64_t>(value);
  }

  // a && b: a; jump_if_zero no; b; truth; jump end; no: 0; end.     a || b: a; jump_if_zero rest; 1; jump
  // end; ...
  template <class Operand>
  void short_circuit(std::string_view token, bool stops_at, const Operand& operand) {
    std::size_t start = code_.size();
    operand();
    while (take(token)) {
      if (constant_since(start)) {
        if (take_condition() == stops_at) {
          discard(operand);
          push(opcode::constant, 0, literal(stops_at));
        } else {
          operand();
          operate(opcode::truth);
        }
        continue;
      }
      const std::size_t test = code_.size();
      emit(opcode::jump_if_zero);
      --depth_;
      std::size_t over = 0;
      if (stops_at) {
        emit(opcode::constant, 0, literal(true));
        over = code_.size();
        emit(opcode::jump);
        land(test);
      }
      code_from_ = code_.size();
      const conditional right_side{*this};
      operand();
      operate(opcode::truth);
      if (!stops_at) {
        over = code_.size();
        emit(opcode::jump);
        land(test);
        emit(opcode::constant, 0, literal(false));
      }
      land(over);
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
    skip_space();
    if (at_ == text_.size()) fail("expected a number, a name or '('");
    if (take("(")) {
      ternary();
      if (!take(")")) fail("expected ')'");
      return;
    }
    const char first = text_[at_];
    if ((first >= '0' && first <= '9') || (real_ && first == '.')) return number();
    if ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_') return name();
    fail("expected a number, a name or '('");
  }

  void number() {
    if (real_) {
      const std::size_t start = at_;
      while (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.' ||
                                    text_[at_] == 'e' || text_[at_] == 'E' ||
                                    ((text_[at_] == '-' || text_[at_] == '+') &&
                                     (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E')))) {
        ++at_;
      }
      const std::string digits{text_.substr(start, at_ - start)};
      std::string local = digits;  // std::stod reads the decimal point of the engine's locale
      if (const std::size_t point = local.find('.'); point != std::string::npos) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): unsafe only beside a change of the process's locale
        local.replace(point, 1, std::localeconv()->decimal_point);
      }
      std::size_t used = 0;
      double value = 0;
      try {
        value = std::stod(local, &used);
      } catch (const std::exception&) {
        used = 0;
      }
      if (used != local.size()) {
        at_ = start;
        fail("'" + digits + "' is not a number");
      }
      return push(opcode::constant, 0, std::bit_cast<std::int64_t>(value));
    }
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        fail("the number does not fit 64 bits");
      }
      ++at_;
    }
    push(opcode::constant, 0, value);
  }

  void name() {
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= 'A' && text_[at_] <= 'Z') ||
            (text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view word = text_.substr(start, at_ - start);
    if (take("(")) return call(word);
    const symbol* meaning = names_.find(word);
    if (meaning == nullptr) {
      at_ = start;
      fail("'" + std::string{word} + "' names nothing" + text::suggestion(word, names_.names()));
    }
    if (meaning->ambiguous) {
      at_ = start;
      fail("'" + std::string{word} +
           "' is an enumerator of several axes with different values; write the number");
    }
    switch (meaning->from) {
      case symbol::source::constant:
        return push(
            opcode::constant, 0,
            real_ ? std::bit_cast<std::int64_t>(static_cast<double>(meaning->value)) : meaning->value);
      case symbol::source::real_constant:
        if (!real_) {
          at_ = start;
          fail("'" + std::string{word} + "' is real; this expression is an integer one");
        }
        return push(opcode::constant, 0, std::bit_cast<std::int64_t>(meaning->real));
      case symbol::source::axis:
        return push(opcode::axis, meaning->index);
      case symbol::source::field:
        return push(opcode::field, meaning->index);
      case symbol::source::attribute:
        return push(opcode::attribute, meaning->index);
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

  std::string_view text_;
  const scope& names_;
  bool real_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t nesting_ = 0;
  std::size_t conditional_ = 0;
  std::size_t code_from_ = 0;
  std::vector<detail::instruction> code_;
};

inline expression expression::parse(std::string_view text, const scope& names) {
  return expression_parser{text, names, false}.parse();
}

inline expression expression::parse_real(std::string_view text, const scope& names) {
  return expression_parser{text, names, true}.parse();
}

}  // namespace switchyard::inline v0
