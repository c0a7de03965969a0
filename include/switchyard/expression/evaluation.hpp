// SPDX-License-Identifier: MIT
// The values of one call that an evaluation reads, and how an operand is loaded from them.
//
// Nothing is owned: axes, attributes, fields and arguments must outlive the evaluation. Loading does not
// check indices; the parser has taken them from the same operator.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <switchyard/expression/program.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

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
  // An expression that reads a field is always evaluated with arguments; making a plan ensures it.
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

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
