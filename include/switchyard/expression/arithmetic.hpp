// SPDX-License-Identifier: MIT
// The operators of expressions, applied to 64-bit integers and to doubles.
//
// Integer overflow, division by zero and shifts out of range are faults, which are returned; no value is made
// up for them. Real operators follow IEEE 754 and never fault. Pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace switchyard {
inline namespace v0 {

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

namespace detail {

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
  round_up,  // the last operator with two operands
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

[[nodiscard]] constexpr int operand_count(opcode code) noexcept {
  return code <= opcode::round_up ? 2 : 1;
}

/// Applies an operator to `a` and `b`, or to `a` alone if it has one operand. After a fault, `out` is
/// unspecified.
// Always inline: a call takes longer than most operators.
[[nodiscard, gnu::always_inline]] inline fault apply(opcode code, std::int64_t a, std::int64_t b,
                                                     std::int64_t& out) noexcept {
  constexpr std::int64_t lowest = INT64_MIN;
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
    case opcode::square_root:
      if (a < 0) return fault::out_of_range;
      out = static_cast<std::int64_t>(__builtin_sqrt(static_cast<double>(a)));
      // A double may have rounded `a` up to the next square.
      if (static_cast<std::uint64_t>(out) * static_cast<std::uint64_t>(out) > static_cast<std::uint64_t>(a))
        --out;
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
      out = __builtin_nan("");
  }
  return fault::none;
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
