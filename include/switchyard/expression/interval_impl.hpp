// SPDX-License-Identifier: MIT
// The bodies of interval.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/larger.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/interval.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

// What leaves 64 bits is a fault, so results may be cut off there.
__extension__ using wide = __int128;

[[nodiscard]] inline std::int64_t saturated(wide value) noexcept {
  constexpr wide lowest = std::numeric_limits<std::int64_t>::min();
  constexpr wide highest = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(value < lowest ? lowest : value > highest ? highest : value);
}

[[nodiscard]] inline interval hull(const interval& a, const interval& b) noexcept {
  if (a.is_empty()) return b;
  if (b.is_empty()) return a;
  return {smaller(a.low, b.low), larger(a.high, b.high)};
}

/// The hull of a function's values at the corners: of one that is monotonic in each operand.
template <class Function>
[[nodiscard]] interval of_corners(const interval& a, const interval& b, const Function& value) noexcept {
  if (a.is_empty() || b.is_empty()) return {};
  const wide first = value(wide{a.low}, wide{b.low});
  const wide second = value(wide{a.low}, wide{b.high});
  const wide third = value(wide{a.high}, wide{b.low});
  const wide last = value(wide{a.high}, wide{b.high});
  return {saturated(smaller(smaller(first, second), smaller(third, last))),
          saturated(larger(larger(first, second), larger(third, last)))};
}

[[nodiscard]] inline interval cut(const interval& of, std::int64_t low, std::int64_t high) noexcept {
  return {larger(of.low, low), smaller(of.high, high)};
}

/// 1 where `always`, 0 where `never`, else either.
[[nodiscard]] inline interval truth_of(bool always, bool never) noexcept {
  return always ? interval{1, 1} : never ? interval{0, 0} : interval{0, 1};
}

[[nodiscard]] inline interval apply_to(opcode code, interval a, interval b) noexcept {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  if (a.is_empty() || (operand_count(code) == 2 && b.is_empty())) return {};
  if (a.is_single() && (b.is_single() || operand_count(code) == 1)) {
    std::int64_t value = 0;
    return apply(code, a.low, b.low, value) == fault::none ? interval{value, value} : interval{};
  }
  switch (code) {
    case opcode::add:
      return {saturated(wide{a.low} + b.low), saturated(wide{a.high} + b.high)};
    case opcode::subtract:
      return {saturated(wide{a.low} - b.high), saturated(wide{a.high} - b.low)};
    case opcode::multiply:
      return of_corners(a, b, [](wide x, wide y) { return x * y; });
    case opcode::divide: {
      const auto quotient = [](wide x, wide y) { return x / y; };
      return hull(of_corners(a, cut(b, lowest, -1), quotient), of_corners(a, cut(b, 1, highest), quotient));
    }
    case opcode::modulo: {
      // The remainder is smaller than the divisor, and has the sign of the dividend.
      const wide size =
          larger(b.low < 0 ? -wide{b.low} : wide{b.low}, b.high < 0 ? -wide{b.high} : wide{b.high});
      if (size == 0) return {};
      return {a.low < 0 ? saturated(larger(wide{a.low}, 1 - size)) : 0,
              a.high > 0 ? saturated(smaller(wide{a.high}, size - 1)) : 0};
    }
    case opcode::shift_left:
      return of_corners(a, cut(b, 0, 62),
                        [](wide x, wide y) { return x * (wide{1} << static_cast<int>(y)); });
    case opcode::shift_right:
      return of_corners(a, cut(b, 0, 63), [](wide x, wide y) { return x >> static_cast<int>(y); });
    case opcode::less:
      return truth_of(a.high < b.low, a.low >= b.high);
    case opcode::less_equal:
      return truth_of(a.high <= b.low, a.low > b.high);
    case opcode::greater:
      return truth_of(a.low > b.high, a.high <= b.low);
    case opcode::greater_equal:
      return truth_of(a.low >= b.high, a.high < b.low);
    case opcode::equal:
      return truth_of(false, a.high < b.low || a.low > b.high);
    case opcode::not_equal:
      return truth_of(a.high < b.low || a.low > b.high, false);
    case opcode::minimum:
      return {smaller(a.low, b.low), smaller(a.high, b.high)};
    case opcode::maximum:
      return {larger(a.low, b.low), larger(a.high, b.high)};
    case opcode::ceil_div:
      return of_corners(cut(a, 0, highest), cut(b, 1, highest),
                        [](wide x, wide y) { return (x + y - 1) / y; });
    case opcode::round_up: {
      a = cut(a, 0, highest);
      b = cut(b, 1, highest);
      if (a.is_empty() || b.is_empty()) return {};
      const auto rounded = [](wide x, wide y) { return (x + y - 1) / y * y; };
      if (b.is_single()) return of_corners(a, b, rounded);
      return {a.low, saturated(a.high == 0 ? wide{0} : wide{a.high} + b.high - 1)};
    }
    case opcode::negate:
      return {saturated(-wide{a.high}), saturated(-wide{a.low})};
    case opcode::logical_not:
      return truth_of(false, !a.contains(0));
    case opcode::truth:
      return truth_of(!a.contains(0), false);
    case opcode::next_pow2:
    case opcode::square_root: {
      a = code == opcode::next_pow2 ? cut(a, lowest, std::int64_t{1} << 62) : cut(a, 0, highest);
      if (a.is_empty()) return {};
      interval out;
      (void)apply(code, a.low, a.low, out.low);
      (void)apply(code, a.high, a.high, out.high);
      return out;
    }
    default:
      return {lowest, highest};
  }
}

/// Evaluates parts of a program over ranges.
class range_evaluation {
 public:
  range_evaluation(std::span<const instruction> program, std::span<const interval> axes,
                   std::span<const std::int64_t> attributes)
      : program_{program}, axes_{axes}, attributes_{attributes} {}

  [[nodiscard]] interval value() {
    run(0, program_.size());
    return stack_.back();
  }

 private:
  [[nodiscard]] interval operand_of(const instruction& step) const noexcept {
    switch (step.from) {
      case operand::constant:
        return {step.integer, step.integer};
      case operand::axis:
        return axes_[step.index];
      case operand::attribute:
        return {attributes_[step.index], attributes_[step.index]};
      default:
        return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
    }
  }

  [[nodiscard]] interval pop() {
    const interval out = stack_.back();
    stack_.pop_back();
    return out;
  }

  /// Runs steps, which leave one value more than they found.
  void run(std::size_t at, std::size_t end) {  // NOLINT(misc-no-recursion): as deep as conditionals are
    for (; at < end; ++at) {
      const instruction& step = program_[at];
      if (step.code == opcode::jump_if_zero) {
        // The two parts of a conditional. The first one ends in a jump over the second.
        const std::size_t over = step.index - 1;
        const std::size_t behind = program_[over].index;
        const interval tested = pop();
        interval out;
        if (!tested.is_empty() && !(tested.is_single() && tested.low == 0)) {
          run(at + 1, over);
          out = pop();
        }
        if (tested.contains(0)) {
          run(step.index, behind);
          out = hull(out, pop());
        }
        stack_.push_back(out);
        at = behind - 1;
      } else if (step.code == opcode::push) {
        stack_.push_back(operand_of(step));
      } else {
        const bool is_binary = operand_count(step.code) == 2;
        const interval last = step.from != operand::stack ? operand_of(step) : pop();
        const interval first = is_binary ? pop() : last;
        stack_.push_back(apply_to(step.code, first, last));
      }
    }
  }

  std::span<const instruction> program_;
  std::span<const interval> axes_;
  std::span<const std::int64_t> attributes_;
  std::vector<interval> stack_;
};

}  // namespace detail

SWITCHYARD_COLD interval bound(const expression& of, std::span<const interval> axes,
                               std::span<const std::int64_t> attributes) {
  return detail::range_evaluation{of.program(), axes, attributes}.value();
}

}  // namespace v0
}  // namespace switchyard
