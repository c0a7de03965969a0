// SPDX-License-Identifier: MIT
// Weights of quantised matrices, one at a time, as the formats are defined (weight_format.hpp). Slow and
// plain on purpose.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <switchyard/base/float16.hpp>
#include <switchyard/operators/weight_format.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

namespace blocks {

[[nodiscard]] inline double half_at(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return static_cast<double>(f16_to_float(bits));
}

/// Four bits of weight i of a block of 32.
[[nodiscard]] inline int nibble(const std::uint8_t* bytes, std::int64_t i) {
  return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

/// The same with a fifth bit, from the four bytes before the 16.
[[nodiscard]] inline int five_bits(const std::uint8_t* bytes, std::int64_t i) {
  return nibble(bytes + 4, i) | (bytes[i / 8] >> i % 8 & 1) << 4;
}

/// The number of four bits in e2m1: a sign, two bits of exponent, one of fraction.
[[nodiscard]] inline double e2m1(int bits) {
  const int exponent = bits >> 1 & 3;
  const int fraction = bits & 1;
  const double magnitude = exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
  return (bits & 8) != 0 ? -magnitude : magnitude;
}

/// Weight i of a q4_k or q5_k block, whose integer is q. The scale and the offset of the 32 weights it is in
/// have six bits each, packed into 12 bytes.
[[nodiscard]] inline double scaled_by_six_bits(const std::uint8_t* block, std::int64_t i, int q) {
  const std::uint8_t* const scales = block + 4;
  const std::int64_t group = i / 32;
  int scale = 0;
  int offset = 0;
  if (group < 4) {
    scale = scales[group] & 63;
    offset = scales[group + 4] & 63;
  } else {
    scale = (scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4;
    offset = (scales[group + 4] >> 4) | (scales[group] >> 6) << 4;
  }
  return half_at(block) * scale * q - half_at(block + 2) * offset;
}

/// Four bits of weight i of q4_k and q5_k: those of two groups of 32 lie side by side.
[[nodiscard]] inline int paired_nibble(const std::uint8_t* bytes, std::int64_t i) {
  const std::uint8_t byte = bytes[i / 64 * 32 + i % 32];
  return i / 32 % 2 == 0 ? byte & 15 : byte >> 4;
}

[[nodiscard]] inline double q4_k_at(const std::uint8_t* block, std::int64_t i) {
  return scaled_by_six_bits(block, i, paired_nibble(block + 16, i));
}

[[nodiscard]] inline double q5_k_at(const std::uint8_t* block, std::int64_t i) {
  const int fifth = block[16 + i % 32] >> (i / 32) & 1;
  return scaled_by_six_bits(block, i, paired_nibble(block + 48, i) | fifth << 4);
}

/// Weight i of a q6_k block: four low bits, two high bits, each half of 128 weights in four groups of 32.
[[nodiscard]] inline double q6_k_at(const std::uint8_t* block, std::int64_t i) {
  const std::int64_t half = i / 128;
  const std::int64_t group = i % 128 / 32;
  const std::int64_t at = i % 32;
  const std::uint8_t low = block[half * 64 + group % 2 * 32 + at];
  const std::uint8_t high = block[128 + half * 32 + at];
  const int q = (group < 2 ? low & 15 : low >> 4) | ((high >> (2 * group)) & 3) << 4;
  const auto scale = static_cast<std::int8_t>(block[192 + i / 16]);
  return half_at(block + 208) * scale * (q - 32);
}

}  // namespace blocks

/// Weight `column` of a row.
[[nodiscard]] inline double weight_at(operators::weight_format format, const void* row, std::int64_t column) {
  using operators::weight_format;
  const std::int64_t elements = operators::block_elements(format);
  const auto* const block =
      static_cast<const std::uint8_t*>(row) + column / elements * operators::block_bytes(format);
  const std::int64_t i = column % elements;
  switch (format) {
    case weight_format::f32: {
      float value = 0;
      std::memcpy(&value, block, sizeof value);
      return static_cast<double>(value);
    }
    case weight_format::f16:
      return blocks::half_at(block);
    case weight_format::bf16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, block, sizeof bits);
      return static_cast<double>(bf16_to_float(bits));
    }
    case weight_format::q8_0:
      return blocks::half_at(block) * static_cast<std::int8_t>(block[2 + i]);
    case weight_format::q4_0:
      return blocks::half_at(block) * (blocks::nibble(block + 2, i) - 8);
    case weight_format::q4_1:
      return blocks::half_at(block) * blocks::nibble(block + 4, i) + blocks::half_at(block + 2);
    case weight_format::q4_k:
      return blocks::q4_k_at(block, i);
    case weight_format::q6_k:
      return blocks::q6_k_at(block, i);
    case weight_format::q5_k:
      return blocks::q5_k_at(block, i);
    case weight_format::iq4_nl:
      return blocks::half_at(block) *
             operators::formats::iq4_nl_values[static_cast<std::size_t>(blocks::nibble(block + 2, i))];
    case weight_format::mxfp4:
      return std::ldexp(blocks::e2m1(blocks::nibble(block + 1, i)), block[0] - 127);
    case weight_format::q5_0:
      return blocks::half_at(block) * (blocks::five_bits(block + 2, i) - 16);
    case weight_format::q5_1:
      return blocks::half_at(block) * blocks::five_bits(block + 4, i) + blocks::half_at(block + 2);
  }
  return 0;
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
