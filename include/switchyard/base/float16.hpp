// SPDX-License-Identifier: MIT
// IEEE 754 binary16 and bfloat16 as bits, for compilers and processors that have no such types.
//
// Conversions to 16 bits round to nearest, ties to even, and keep infinities, NaN (as a quiet NaN) and
// subnormals; conversions from 16 bits are exact.
#pragma once

#include <bit>
#include <cstdint>

namespace switchyard {
inline namespace v0 {

namespace detail {

template <int MantissaBits>
[[nodiscard]] constexpr std::uint16_t round_to_16_bits(double value) noexcept {
  constexpr int exponent_bits = 15 - MantissaBits;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << MantissaBits;

  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000U);
  const std::uint64_t magnitude = bits & 0x7FFF'FFFF'FFFF'FFFFU;
  const auto exponent = static_cast<int>(magnitude >> 52) - 1023;
  std::uint64_t rounded = 0;
  if (magnitude > 0x7FF0'0000'0000'0000U) {
    rounded = infinity | (std::uint64_t{1} << (MantissaBits - 1));
  } else if (exponent > bias) {
    rounded = infinity;
  } else {
    // Bits that fall away: those beyond the mantissa, more where the result is subnormal.
    const int below_normal = exponent < 1 - bias ? 1 - bias - exponent : 0;
    const int dropped = 52 - MantissaBits + below_normal;
    if (dropped <= 54) {
      const std::uint64_t significand = (magnitude & 0xF'FFFF'FFFF'FFFFU) | (std::uint64_t{1} << 52);
      const std::uint64_t kept = significand >> dropped;
      const std::uint64_t rest = significand & ((std::uint64_t{1} << dropped) - 1);
      const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
      rounded = kept + (rest > half || (rest == half && (kept & 1U) != 0) ? 1 : 0);
      // The hidden bit of a normal significand adds one to the exponent field, and so does a carry out of it.
      if (below_normal == 0) rounded += static_cast<std::uint64_t>(exponent + bias - 1) << MantissaBits;
    }
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

}  // namespace detail

[[nodiscard]] constexpr std::uint16_t f16_from(double value) noexcept {
  return detail::round_to_16_bits<10>(value);
}
[[nodiscard]] constexpr std::uint16_t bf16_from(double value) noexcept {
  return detail::round_to_16_bits<7>(value);
}

[[nodiscard]] constexpr float f16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) {
    return std::bit_cast<float>(sign | 0x7F80'0000U | (magnitude & 0x3FFU) << 13);
  }
  if (magnitude >= 0x0400U) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}
[[nodiscard]] constexpr float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace v0
}  // namespace switchyard
