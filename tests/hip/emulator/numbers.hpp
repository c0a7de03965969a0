// SPDX-License-Identifier: MIT
// The number types and helper functions of the pseudocode that instructions are generated from. Names are the
// manuals'.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace emulator {

// NOLINTBEGIN(readability-identifier-naming): the manuals' names

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

/// The bits of an f32 as an f16, rounded to nearest even or towards zero.
inline std::uint16_t round_to_half(double value, bool to_zero = false) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48U & 0x8000U);
  const double size = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (size < 0x1p-25) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);                             // size = m * 2^exponent, m in [0.5, 1)
  const int place = exponent < -13 ? -24 : exponent - 11;  // of the last bit kept
  const double scaled = std::ldexp(size, -place);
  const double rounded = to_zero ? std::floor(scaled) : std::nearbyint(scaled);
  const double result = std::ldexp(rounded, place);
  if (result >= 65536) return static_cast<std::uint16_t>(sign | (to_zero ? 0x7bffU : 0x7c00U));
  if (result < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<unsigned>(result * 0x1p24));
  std::frexp(result, &exponent);
  const auto fraction = static_cast<unsigned>(std::ldexp(result, 11 - exponent)) & 0x3ffU;
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(exponent + 14) << 10U | fraction);
}

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(size));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
}

/// An f16. Sums, differences and products of two in a double are exact, so that each is rounded once.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  explicit half(Number value) : bits{round_to_half(static_cast<double>(value))} {}
  explicit operator double() const { return half_to_float(bits); }
  explicit operator float() const { return half_to_float(bits); }
  explicit operator bool() const { return (bits & 0x7fffU) != 0; }
  half operator-() const { return of(static_cast<std::uint16_t>(bits ^ 0x8000U)); }
  static half of(std::uint16_t bits) {
    half result;
    result.bits = bits;
    return result;
  }
  friend half operator+(half a, half b) { return half{double(a) + double(b)}; }
  friend half operator-(half a, half b) { return half{double(a) - double(b)}; }
  friend half operator*(half a, half b) { return half{double(a) * double(b)}; }
  friend half operator/(half a, half b) { return half{double(a) / double(b)}; }
  friend bool operator==(half a, half b) { return float(a) == float(b); }
  friend bool operator!=(half a, half b) { return float(a) != float(b); }
  friend bool operator<(half a, half b) { return float(a) < float(b); }
  friend bool operator<=(half a, half b) { return float(a) <= float(b); }
  friend bool operator>(half a, half b) { return float(a) > float(b); }
  friend bool operator>=(half a, half b) { return float(a) >= float(b); }
};

struct bfloat {
  std::uint16_t bits = 0;
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
  explicit operator double() const { return float(*this); }
};

inline std::uint16_t bits_of(half value) {
  return value.bits;
}
inline std::uint16_t bits_of(bfloat value) {
  return value.bits;
}
inline std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

template <class Float, class Bits>
Float from_bits(Bits bits) {
  if constexpr (std::is_same_v<Float, half>) {
    return half::of(static_cast<std::uint16_t>(bits));
  } else if constexpr (std::is_same_v<Float, bfloat>) {
    return bfloat{static_cast<std::uint16_t>(bits)};
  } else if constexpr (std::is_same_v<Float, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else {
    return std::bit_cast<double>(static_cast<std::uint64_t>(bits));
  }
}

template <unsigned Bits>
std::int32_t sign_extended(std::uint32_t value) {
  return static_cast<std::int32_t>(value << (32 - Bits)) >> (32 - Bits);
}

template <class Value, class Count>
Value shift_left(Value value, Count count) {
  constexpr auto width = static_cast<std::uint64_t>(sizeof(Value) * 8);
  const auto by = static_cast<std::uint64_t>(count);
  if constexpr (sizeof(Value) <= 4) {
    return by < width ? static_cast<Value>(static_cast<std::uint32_t>(value)
                                           << (static_cast<std::uint32_t>(by) & 31U))
                      : Value{};
  } else {
    return by < width ? static_cast<Value>(static_cast<std::make_unsigned_t<Value>>(value) << by) : Value{};
  }
}

template <class Value, class Count>
Value shift_right(Value value, Count count) {
  constexpr auto width = static_cast<std::uint64_t>(sizeof(Value) * 8);
  const auto by = static_cast<std::uint64_t>(count);
  if (by >= width) return value < 0 ? static_cast<Value>(-1) : Value{};
  return static_cast<Value>(value >> by);
}

/// What a denormal number of the type equals, as the manuals write it.
template <class Float>
struct denormal {
  friend bool operator==(Float value, denormal) {
    return value != Float{} && std::abs(value) < std::numeric_limits<Float>::min();
  }
};

template <class Float>
int exponent(Float value) {
  if constexpr (std::is_same_v<Float, half>) return value.bits >> 10U & 0x1f;
  if constexpr (std::is_same_v<Float, float>) return static_cast<int>(bits_of(value) >> 23U & 0xffU);
  if constexpr (std::is_same_v<Float, double>) return static_cast<int>(bits_of(value) >> 52U & 0x7ffU);
}
template <class Float>
std::uint32_t sign(Float value) {
  return static_cast<std::uint32_t>(bits_of(value) >> (sizeof(Float) * 8 - 1));
}
inline bool isNAN(half value) {
  return (value.bits & 0x7fffU) > 0x7c00U;
}
inline bool isNAN(float value) {
  return std::isnan(value);
}
inline bool isNAN(double value) {
  return std::isnan(value);
}
inline bool isQuietNAN(half value) {
  return isNAN(value) && (value.bits & 0x200U) != 0;
}
inline bool isQuietNAN(float value) {
  return (bits_of(value) & 0x7fc00000U) == 0x7fc00000U;
}
inline bool isQuietNAN(double value) {
  return (bits_of(value) & 0x7ff8000000000000ULL) == 0x7ff8000000000000ULL;
}
template <class Float>
bool isSignalNAN(Float value) {
  return isNAN(value) && !isQuietNAN(value);
}
inline half cvtToQuietNAN(half value) {
  return half::of(static_cast<std::uint16_t>(value.bits | 0x200U));
}
inline float cvtToQuietNAN(float value) {
  return from_bits<float>(bits_of(value) | 0x400000U);
}
inline double cvtToQuietNAN(double value) {
  return from_bits<double>(bits_of(value) | 0x8000000000000ULL);
}
template <class Float>
bool isEven(Float value) {
  return std::fmod(static_cast<double>(value), 2.0) == 0;
}

inline half fma(half a, half b, half c) {
  return half{std::fma(double(a), double(b), double(c))};
}
inline float fma(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double fma(double a, double b, double c) {
  return std::fma(a, b, c);
}

/// Transcendental instructions take a denormal number as zero, and give zero for one.
inline float flushed(float value) {
  return std::abs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}
inline double flushed(double value) {
  return value;
}
inline half flushed(half value) {
  return value;
}

template <class Float>
Float p_flush(Float value) {
  return flushed(value);
}

template <class Float>
Float p_abs(Float value) {
  if constexpr (std::is_same_v<Float, half>) {
    return half::of(value.bits & 0x7fffU);
  } else {
    return std::abs(value);
  }
}
template <class Float>
Float p_trunc(Float value) {
  if constexpr (std::is_same_v<Float, half>)
    return half{std::trunc(float(value))};
  else
    return std::trunc(value);
}
template <class Float>
Float p_floor(Float value) {
  if constexpr (std::is_same_v<Float, half>)
    return half{std::floor(float(value))};
  else
    return std::floor(value);
}
template <class Float>
Float p_fract(Float value) {
  return Float(value - p_floor(value));
}
template <class Float>
Float p_sqrt(Float value) {
  return flushed(Float(std::sqrt(double(flushed(value)))));
}
/// Their argument is in turns of a circle, and is multiplied by 2 pi in the text.
template <class Float>
Float p_sin(Float value) {
  return Float(std::sin(double(flushed(value))));
}
template <class Float>
Float p_cos(Float value) {
  return Float(std::cos(double(flushed(value))));
}
template <class Float>
Float p_log2(Float value) {
  return Float(std::log2(double(flushed(value))));
}
/// 2 to a power: the only base there is.
template <class Float>
Float p_pow(Float /*base*/, Float value) {
  if constexpr (std::is_same_v<Float, float>) return flushed(std::exp2(flushed(value)));
  return flushed(Float(std::exp2(double(flushed(value)))));
}
template <class Float>
Float p_ldexp(Float value, std::int32_t by) {
  return Float(std::ldexp(double(value), by));
}
template <class Float>
Float p_mantissa(Float value) {
  int ignored = 0;
  return Float(std::frexp(double(value), &ignored));
}
template <class Integer>
Integer p_reverse_bits(Integer value) {
  Integer result = 0;
  for (unsigned i = 0; i < sizeof(Integer) * 8; ++i) result = Integer(result << 1U | (value >> i & 1U));
  return result;
}

inline half f32_to_f16(float value) {
  return half{value};
}
inline float f16_to_f32(half value) {
  return float(value);
}
inline float bf16_to_f32(bfloat value) {
  return float(value);
}
inline float bf16_to_f32(std::uint16_t bits) {
  return float(bfloat{bits});
}
inline float i32_to_f32(std::int32_t value) {
  return static_cast<float>(value);
}
inline float u32_to_f32(std::uint32_t value) {
  return static_cast<float>(value);
}
inline double i32_to_f64(std::int32_t value) {
  return value;
}
inline double u32_to_f64(std::uint32_t value) {
  return value;
}
inline double f32_to_f64(float value) {
  return value;
}
inline float f64_to_f32(double value) {
  return static_cast<float>(value);
}
inline half i16_to_f16(std::int16_t value) {
  return half{value};
}
inline half u16_to_f16(std::uint16_t value) {
  return half{value};
}

/// Conversions to integers saturate, and take what is no number as 0.
template <class Integer>
Integer saturated(double value) {
  using limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(limits::min())) return limits::min();
  if (value >= static_cast<double>(limits::max())) return limits::max();
  return static_cast<Integer>(value);
}
inline std::int32_t f32_to_i32(float value) {
  return saturated<std::int32_t>(value);
}
inline std::uint32_t f32_to_u32(float value) {
  return saturated<std::uint32_t>(value);
}
inline std::int32_t f64_to_i32(double value) {
  return saturated<std::int32_t>(value);
}
inline std::uint32_t f64_to_u32(double value) {
  return saturated<std::uint32_t>(value);
}
inline std::int16_t f16_to_i16(half value) {
  return saturated<std::int16_t>(double(value));
}
inline std::uint16_t f16_to_u16(half value) {
  return saturated<std::uint16_t>(double(value));
}
inline std::uint8_t f32_to_u8(float value) {
  return saturated<std::uint8_t>(value);
}
inline std::int32_t i16_to_i32(std::int16_t value) {
  return value;
}
inline std::int32_t i8_to_i32(std::uint8_t value) {
  return static_cast<std::int8_t>(value);
}
inline std::int32_t i4_to_i32(std::uint8_t value) {
  return sign_extended<4>(value);
}
inline std::uint32_t u16_to_u32(std::uint16_t value) {
  return value;
}
inline std::uint32_t u8_to_u32(std::uint8_t value) {
  return value;
}
inline std::uint32_t u4_to_u32(std::uint8_t value) {
  return value & 15U;
}
inline std::uint16_t u32_to_u16(std::uint32_t value) {
  return static_cast<std::uint16_t>(value > 65535 ? 65535 : value);
}
inline std::int16_t i32_to_i16(std::int32_t value) {
  return saturated<std::int16_t>(value);
}

template <class Value>
Value v_max(Value a, Value b) {
  if constexpr (!std::is_integral_v<Value>) {
    if (isNAN(a)) return b;
    if (isNAN(b)) return a;
    if (a == b) return sign(a) != 0 ? b : a;
  }
  return a > b ? a : b;
}
template <class Value>
Value v_min(Value a, Value b) {
  if constexpr (!std::is_integral_v<Value>) {
    if (isNAN(a)) return b;
    if (isNAN(b)) return a;
    if (a == b) return sign(a) != 0 ? a : b;
  }
  return a < b ? a : b;
}
template <class Value>
Value v_max3(Value a, Value b, Value c) {
  return v_max(v_max(a, b), c);
}
template <class Value>
Value v_min3(Value a, Value b, Value c) {
  return v_min(v_min(a, b), c);
}
/// a < b where -0 is less than +0.
template <class Float>
bool LT_NEG_ZERO(Float a, Float b) {
  return a < b || (a == Float{} && b == Float{} && sign(a) != 0 && sign(b) == 0);
}
template <class Float>
bool GT_NEG_ZERO(Float a, Float b) {
  return LT_NEG_ZERO(b, a);
}

inline std::int32_t signext_from_bit(std::int32_t value, std::uint32_t bits) {
  if (bits == 0) return 0;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value) << (32 - bits)) >> (32 - bits);
}
inline std::uint32_t bitCount(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::popcount(value));
}
inline std::uint32_t countbits(std::uint64_t value) {
  return bitCount(value);
}
inline std::uint32_t count_ones(std::uint64_t value) {
  return bitCount(value);
}
inline std::int32_t s_ff1_i32_b32(std::uint32_t value) {
  return value == 0 ? -1 : std::countr_zero(value);
}
inline std::int32_t s_ff1_i32_b64(std::uint64_t value) {
  return value == 0 ? -1 : std::countr_zero(value);
}
inline std::uint32_t ABSDIFF(std::uint32_t a, std::uint32_t b) {
  return a > b ? a - b : b - a;
}

/// One byte of v_perm_b32: of eight, or the sign of a half of one of them, or a constant.
inline std::uint8_t BYTE_PERMUTE(std::uint64_t data, std::uint32_t select) {
  const auto byte = [data](std::uint32_t index) { return static_cast<std::uint8_t>(data >> (8 * index)); };
  if (select >= 13) return 0xff;
  if (select == 12) return 0;
  if (select >= 8) return (byte(2 * (select - 8) + 1) & 0x80U) != 0 ? 0xff : 0;
  return byte(select);
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
