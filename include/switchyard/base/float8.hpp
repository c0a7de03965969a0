// SPDX-License-Identifier: MIT
// The 8-bit float e4m3 of the OCP specification (e4m3fn) as bits: 4 bits of exponent with a bias of 7, 3 of
// mantissa, subnormals, no infinities; both patterns with all seven low bits set are NaN. The largest number
// is 448, the smallest 2^-9. AMD's e4m3fnuz of gfx942 is another format.
//
// Conversion to e4m3 rounds to nearest, ties to even; what is larger than 448, infinities too, becomes 448 of
// its sign. Conversion from e4m3 is exact.
//
// Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433.
#pragma once

#include <bit>
#include <cstdint>

namespace switchyard {
inline namespace v0 {

[[nodiscard]] constexpr std::uint8_t f8_e4m3_from(double value) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 56 & 0x80U);
  const std::uint64_t magnitude = bits & 0x7FFF'FFFF'FFFF'FFFFU;
  if (magnitude > 0x7FF0'0000'0000'0000U) return sign | 0x7FU;
  const double size = std::bit_cast<double>(magnitude);
  if (size >= 464.0) return sign | 0x7EU;  // half a unit above 448 would be rounded to 480, which is NaN's
  // Adding 2^52 units leaves the number of units in the low bits, rounded as the addition rounds.
  const auto exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int below = exponent < -6 ? -6 : exponent;  // 8 units are 2^below
  const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(below - 3 + 1023) << 52);
  const double shift = unit * 0x1p52;
  const auto units = static_cast<std::uint8_t>((size + shift - shift) / unit);
  // 8 to 16 units, whose 8 is the hidden bit; 16 carries into the exponent, and below 8 is subnormal.
  return static_cast<std::uint8_t>(sign | (units + static_cast<unsigned>(below + 6) * 8U));
}

[[nodiscard]] constexpr float f8_e4m3_to_float(std::uint8_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t magnitude = bits & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC0'0000U);
  if (magnitude >= 8U) return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9F;
  return sign != 0 ? -subnormal : subnormal;
}

}  // namespace v0
}  // namespace switchyard
