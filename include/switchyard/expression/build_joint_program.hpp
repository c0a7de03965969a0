// SPDX-License-Identifier: MIT
// Compiles integer expressions into a joint_program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {

class joint_program_builder {
 public:
  /// Adds an expression that reads axes alone; returns its number. Equal ones have one number.
  [[nodiscard]] std::uint32_t add(expression value);

  [[nodiscard]] joint_program build();

 private:
  using operand = detail::operand;
  using opcode = detail::opcode;

  /// A constant, an axis (its index is the first part), or an operation on other values.
  struct meaning {
    operand from = operand::stack;
    opcode code = opcode::push;
    std::array<std::uint32_t, 3> parts{};
    std::int64_t constant = 0;

    // Arrays of libc++ 16 have no <=>.
    friend bool operator<(const meaning& a, const meaning& b) noexcept {
      return std::tie(a.from, a.code, a.parts, a.constant) < std::tie(b.from, b.code, b.parts, b.constant);
    }
  };
  struct known_value {
    meaning is;
    std::uint32_t first_user = joint_program::interpreted;  // an expression, by its number
    bool is_shared = false;                                 // others use it as well
  };

  struct section {
    std::size_t begin;
    std::size_t end;
  };

  [[nodiscard]] static std::uint64_t hash_of(std::span<const detail::instruction> program) noexcept;

  /// The number of a value; equal ones have one number.
  [[nodiscard]] std::uint32_t number_of(const meaning& wanted);

  /// Runs a part of a program with values' numbers in place of values.
  void translate(std::span<const detail::instruction> program, section range,
                 std::vector<std::uint32_t>& stack);

  [[nodiscard]] static std::uint32_t take(std::vector<std::uint32_t>& stack);

  /// Notes that an expression uses a value and the values that it is made of.
  void mark(std::uint32_t number, std::uint32_t user);

  std::vector<known_value> values_;  // each behind those that it is made of
  std::map<meaning, std::uint32_t> numbers_;
  std::vector<std::uint32_t> results_;  // by expression, the number of its value
  std::vector<expression> expressions_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_hash_;  // expressions, by their number
  bool is_possible_ = true;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/build_joint_program_impl.hpp>
#endif
