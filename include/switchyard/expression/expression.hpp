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
#include <type_traits>
#include <utility>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

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
  push,
  add,
  subtract,
  multiply,
  divide,
  modulo,
  shift_left,
  shift_right,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  minimum,
  maximum,
  ceil_div,
  round_up,  // the last of those with two operands
  negate,
  logical_not,
  truth,
  next_pow2,
  square_root,
  logarithm2,
  power2,
  jump,
  jump_if_zero,  // jump_if_zero pops
};

enum class operand : std::uint8_t { stack, constant, axis, attribute, field };

// A step of a program. An operator's last operand is on the stack, or is named in the same step.
struct instruction {
  opcode code = opcode::push;
  operand from = operand::constant;
  std::uint32_t index = 0;   // of an axis, field or attribute, or a jump's target
  std::int64_t integer = 0;  // a constant; a real program keeps the bits of a double here

  friend bool operator==(const instruction&, const instruction&) = default;
};

[[nodiscard]] constexpr int operand_count(opcode code) noexcept {
  return code <= opcode::round_up ? 2 : 1;
}

template <class Value>
[[nodiscard]] inline Value load_operand(const instruction& step, const evaluation& values) noexcept {
  if (step.from == operand::constant) return std::bit_cast<Value>(step.integer);
  if (step.from == operand::axis) return static_cast<Value>(values.axes[step.index]);
  if (step.from == operand::attribute) return static_cast<Value>(values.attributes[step.index]);
  const field_description& field = values.fields[step.index];
  const std::byte* const address = values.arguments + field.offset;
  if constexpr (std::is_floating_point_v<Value>) {
    return load_real(address, field.kind);
  } else {
    return load_integer(address, field.kind);
  }
}

/// Applies an operator to `a` and `b`, to `a` alone where it has one operand. With a fault, `out` means
/// nothing.
// Always inline: a call for each step takes longer than most steps.
[[nodiscard, gnu::always_inline]] inline fault apply(opcode code, std::int64_t a, std::int64_t b,
                                                     std::int64_t& out) noexcept {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  const auto checked = [](bool overflows) { return overflows ? fault::overflow : fault::none; };
  switch (code) {
    case opcode::add:
      return checked(__builtin_add_overflow(a, b, &out));
    case opcode::subtract:
      return checked(__builtin_sub_overflow(a, b, &out));
    case opcode::multiply:
      return checked(__builtin_mul_overflow(a, b, &out));
    case opcode::divide:
    case opcode::modulo:
      if (b == 0) return fault::division_by_zero;
      if (a == lowest && b == -1) return fault::overflow;
      out = code == opcode::divide ? a / b : a % b;
      return fault::none;
    case opcode::shift_left:
      if (b < 0 || b > 62) return fault::out_of_range;
      return checked(__builtin_mul_overflow(a, std::int64_t{1} << b, &out));
    case opcode::shift_right:
      if (b < 0 || b > 63) return fault::out_of_range;
      out = a >> b;
      return fault::none;
    case opcode::less:
      out = a < b;
      return fault::none;
    case opcode::less_equal:
      out = a <= b;
      return fault::none;
    case opcode::greater:
      out = a > b;
      return fault::none;
    case opcode::greater_equal:
      out = a >= b;
      return fault::none;
    case opcode::equal:
      out = a == b;
      return fault::none;
    case opcode::not_equal:
      out = a != b;
      return fault::none;
    case opcode::minimum:
      out = a < b ? a : b;
      return fault::none;
    case opcode::maximum:
      out = a > b ? a : b;
      return fault::none;
    case opcode::ceil_div:
    case opcode::round_up: {
      if (b == 0) return fault::division_by_zero;
      if (b < 0 || a < 0) return fault::out_of_range;
      const std::int64_t quotient = a / b + (a % b != 0 ? 1 : 0);
      if (code == opcode::round_up) return checked(__builtin_mul_overflow(quotient, b, &out));
      out = quotient;
      return fault::none;
    }
    case opcode::negate:
      return checked(__builtin_sub_overflow(std::int64_t{0}, a, &out));
    case opcode::logical_not:
      out = a == 0;
      return fault::none;
    case opcode::truth:
      out = a != 0;
      return fault::none;
    case opcode::next_pow2:
      if (a > (std::int64_t{1} << 62)) return fault::overflow;
      out = a <= 1 ? 1 : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(a)));
      return fault::none;
    default:
      return fault::out_of_range;
  }
}

[[nodiscard]] inline fault apply(opcode code, double a, double b, double& out) noexcept {
  switch (code) {
    case opcode::add:
      out = a + b;
      break;
    case opcode::subtract:
      out = a - b;
      break;
    case opcode::multiply:
      out = a * b;
      break;
    case opcode::divide:
      out = a / b;
      break;
    case opcode::less:
      out = a < b ? 1 : 0;
      break;
    case opcode::less_equal:
      out = a <= b ? 1 : 0;
      break;
    case opcode::greater:
      out = a > b ? 1 : 0;
      break;
    case opcode::greater_equal:
      out = a >= b ? 1 : 0;
      break;
    case opcode::equal:
      out = a == b ? 1 : 0;
      break;
    case opcode::not_equal:
      out = a != b ? 1 : 0;
      break;
    case opcode::minimum:
      out = a < b ? a : b;
      break;
    case opcode::maximum:
      out = a > b ? a : b;
      break;
    case opcode::negate:
      out = -a;
      break;
    case opcode::logical_not:
      out = a == 0 ? 1 : 0;
      break;
    case opcode::truth:
      out = a != 0 ? 1 : 0;
      break;
    case opcode::square_root:
      out = __builtin_sqrt(a);
      break;
    case opcode::logarithm2:
      out = __builtin_log2(a);
      break;
    case opcode::power2:
      out = __builtin_exp2(a);
      break;
    default:
      out = std::numeric_limits<double>::quiet_NaN();
  }
  return fault::none;
}

/// Emits a program. Operators of constants are computed at once; what is pushed for an operator alone becomes
/// part of it.
class program_writer {
 public:
  explicit program_writer(bool real) : real_{real} {}

  [[nodiscard]] std::size_t size() const noexcept { return code_.size(); }
  [[nodiscard]] std::vector<instruction> take() noexcept { return std::move(code_); }

  void push(operand from, std::uint32_t index, std::int64_t integer) {
    code_.push_back({opcode::push, from, index, integer});
  }

  /// Returns the fault that constants lead to. The operator then stays in the program, for a condition may
  /// keep it from being met.
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

  /// Emits a jump whose target land() gives, and begins a part that may not be evaluated.
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

  /// Takes away the condition that was pushed last, a constant.
  [[nodiscard]] bool take_condition() {
    const std::int64_t value = code_.back().integer;
    code_.pop_back();
    return real_ ? std::bit_cast<double>(value) != 0 : value != 0;
  }

  /// Emits what `part` emits and takes it back.
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
  std::size_t part_ = 0;  // where the last conditional part begins or ends: jumps lead to no place after it
  std::vector<instruction> code_;
};

}  // namespace detail

class expression {
 public:
  /// Longest text, most instructions and deepest stack an expression may have.
  static constexpr std::size_t max_text = 4096;
  static constexpr std::size_t max_instructions = 512;
  static constexpr std::size_t max_depth = 48;

  expression() = default;

  /// A constant.
  explicit expression(std::int64_t value)
      : program_{{detail::opcode::push, detail::operand::constant, 0, value}} {}

  /// Parses an integer expression. Throws expression_error.
  [[nodiscard]] static expression parse(std::string_view text, const scope& names);

  /// Parses a real expression: decimal literals, sqrt, log2 and exp2 join; %, << and >> are left out.
  [[nodiscard]] static expression parse_real(std::string_view text, const scope& names);

  [[nodiscard]] bool is_constant() const noexcept {
    return program_.size() == 1 && program_[0].from == detail::operand::constant;
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
      if (step.from == detail::operand::field) visit(step.index);
    }
  }
  [[nodiscard]] bool reads_attributes() const noexcept {
    for (const detail::instruction& step : program_) {
      if (step.from == detail::operand::attribute) return true;
    }
    return false;
  }
  /// Whether it reads an axis, by its index.
  [[nodiscard]] bool reads_axis(std::uint32_t index) const noexcept {
    for (const detail::instruction& step : program_) {
      if (step.from == detail::operand::axis && step.index == index) return true;
    }
    return false;
  }

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

  /// The same integer expression for problems that have these values, on a device with these attributes: only
  /// what depends on other axes and on arguments is left to evaluate.
  [[nodiscard]] expression fold(std::span<const axis_value> axes,
                                std::span<const std::int64_t> attributes) const {
    detail::program_writer to{false};
    fold_part({0, program_.size()}, axes, attributes, to);
    expression out;
    out.program_ = to.take();
    return out;
  }

  /// Whether both compute the same in the same way.
  friend bool operator==(const expression&, const expression&) = default;

 private:
  friend class expression_parser;

  struct part {
    std::size_t begin;
    std::size_t end;
  };

  template <class Value>
  [[nodiscard, gnu::noinline]] fault run(const evaluation& values, Value& out) const noexcept {
    // The uppermost value is kept in `top`, those under it here; the first to be pushed lies over none.
    std::array<Value, max_depth + 1> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
    std::size_t under = 0;
    Value top = 0;
    const detail::instruction* const begin = program_.data();
    const detail::instruction* const end = begin + program_.size();
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

  void fold_part(part which, std::span<const axis_value> axes, std::span<const std::int64_t> attributes,
                 detail::program_writer& to) const {
    for (std::size_t at = which.begin; at < which.end; ++at) {
      const detail::instruction& step = program_[at];
      if (step.code == detail::opcode::jump_if_zero) {
        // What a condition chooses from: up to a jump over the second part, and the second part.
        const part first{at + 1, step.index - 1};
        const part second{step.index, program_[first.end].index};
        at = second.end - 1;
        if (to.ends_in_constants(1)) {
          fold_part(to.take_condition() ? first : second, axes, attributes, to);
          continue;
        }
        const std::size_t test = to.jump(detail::opcode::jump_if_zero);
        fold_part(first, axes, attributes, to);
        const std::size_t over = to.jump(detail::opcode::jump);
        to.land(test);
        fold_part(second, axes, attributes, to);
        to.land(over);
        continue;
      }
      if (step.from != detail::operand::stack) push_known(step, axes, attributes, to);
      if (step.code != detail::opcode::push) (void)to.operate(step.code);
    }
  }

  static void push_known(const detail::instruction& step, std::span<const axis_value> axes,
                         std::span<const std::int64_t> attributes, detail::program_writer& to) {
    if (step.from == detail::operand::attribute)
      return to.push(detail::operand::constant, 0, attributes[step.index]);
    if (step.from == detail::operand::axis) {
      for (const axis_value& each : axes) {
        if (each.axis == step.index) return to.push(detail::operand::constant, 0, each.value);
      }
    }
    to.push(step.from, step.index, step.integer);
  }

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
    ternary();
    skip_space();
    if (at_ != text_.size()) fail("unexpected '" + std::string{text_.substr(at_, 1)} + "'");
    expression result;
    result.program_ = to_.take();
    return result;
  }

 private:
  using opcode = detail::opcode;
  using operand = detail::operand;

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

  void push(operand from, std::uint32_t index, std::int64_t integer = 0) {
    if (++depth_ > expression::max_depth) fail("is too deep");
    check_length();
    to_.push(from, index, integer);
  }

  // A fault among constants is an error, unless a condition may keep it from being met.
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

  // Takes the constant condition that was emitted last.
  [[nodiscard]] bool take_condition() {
    --depth_;
    return to_.take_condition();
  }

  // Parses what a constant condition keeps from being evaluated.
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
      return push(operand::constant, 0, std::bit_cast<std::int64_t>(value));
    }
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        fail("the number does not fit 64 bits");
      }
      ++at_;
    }
    push(operand::constant, 0, value);
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
            operand::constant, 0,
            real_ ? std::bit_cast<std::int64_t>(static_cast<double>(meaning->value)) : meaning->value);
      case symbol::source::real_constant:
        if (!real_) {
          at_ = start;
          fail("'" + std::string{word} + "' is real; this expression is an integer one");
        }
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

  std::string_view text_;
  const scope& names_;
  bool real_;
  std::size_t at_ = 0;
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
