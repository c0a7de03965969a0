// SPDX-License-Identifier: MIT
// Vectors of float for CPU kernels, as wide as the flags of the translation unit allow.
//
// Private to kernels/: everything sits in an unnamed namespace, because the same source is compiled several
// times for different instruction sets and the copies must not meet. GCC's and Clang's vector extensions do
// the arithmetic; intrinsics appear only where conversions have instructions of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/float16.hpp>
#include <switchyard/base/float8.hpp>

#define SWITCHYARD_INLINE [[gnu::always_inline]] inline

namespace {

/// Elements of 16-bit tensors.
struct half {
  std::uint16_t bits;
};
struct bfloat {
  std::uint16_t bits;
};
/// Elements of e4m3 tensors.
struct float8 {
  std::uint8_t bits;
};

#if defined(__AVX512F__)
constexpr std::size_t lanes = 16;
constexpr bool many_registers = true;
#elif defined(__AVX2__)
constexpr std::size_t lanes = 8;
constexpr bool many_registers = false;
#elif defined(__aarch64__)
constexpr std::size_t lanes = 4;
constexpr bool many_registers = true;
#else
constexpr std::size_t lanes = 4;
constexpr bool many_registers = false;
#endif

using floats [[gnu::vector_size(lanes * 4)]] = float;
using ints [[gnu::vector_size(lanes * 4)]] = std::int32_t;
using words [[gnu::vector_size(lanes * 4)]] = std::uint32_t;
using shorts [[gnu::vector_size(lanes * 2)]] = std::uint16_t;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2e = 1.44269504088896340736F;
constexpr float ln2 = 0.69314718055994530942F;

/// Calls f with the constants 0 to Count - 1, so that a loop over registers is certain to be unrolled.
template <std::size_t Count, class Function>
SWITCHYARD_INLINE void unroll(Function f) {
  [&]<std::size_t... Index>(std::index_sequence<Index...>) __attribute__((always_inline)) {
    (f(std::integral_constant<std::size_t, Index>{}), ...);
  }
  (std::make_index_sequence<Count>{});
}

// Subtracting zero changes no value, -0 included, so that compilers leave it out; adding zero would stay.
SWITCHYARD_INLINE floats splat(float value) {
  return value - floats{};
}

template <class To, class From>
SWITCHYARD_INLINE To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

SWITCHYARD_INLINE floats select(ints mask, floats yes, floats no) {
  return mask ? yes : no;
}
SWITCHYARD_INLINE words select(ints mask, words yes, words no) {
  return mask ? yes : no;
}

/// Words below 2^31 for comparing: SSE2 and AVX2 have no unsigned comparison.
SWITCHYARD_INLINE ints signed_words(words value) {
  return bits_of<ints>(value);
}

/// The larger; `a` where `b` is NaN, so that a NaN in `a` stays.
SWITCHYARD_INLINE floats larger(floats a, floats b) {
  return select(a < b, b, a);
}

// ---- elements of memory to floats and back

SWITCHYARD_INLINE float to_float(float value) {
  return value;
}
SWITCHYARD_INLINE float to_float(half value) {
  return switchyard::f16_to_float(value.bits);
}
SWITCHYARD_INLINE float to_float(bfloat value) {
  return switchyard::bf16_to_float(value.bits);
}
SWITCHYARD_INLINE float to_float(float8 value) {
  return switchyard::f8_e4m3_to_float(value.bits);
}
SWITCHYARD_INLINE float to_float(double value) {
  return static_cast<float>(value);
}

template <class Element>
SWITCHYARD_INLINE Element from_double(double value) {
  if constexpr (std::is_same_v<Element, half>) return {switchyard::f16_from(value)};
  if constexpr (std::is_same_v<Element, bfloat>) return {switchyard::bf16_from(value)};
  if constexpr (std::is_same_v<Element, float>) return static_cast<float>(value);
}

SWITCHYARD_INLINE floats load(const float* from) {
  floats result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

/// Sixteen-bit integers, widened. Compilers would take __builtin_convertvector apart without SSE4.1.
SWITCHYARD_INLINE words load_words(const void* from) {
#if defined(__x86_64__) && !defined(__AVX2__)
  return bits_of<words>(_mm_unpacklo_epi16(_mm_loadu_si64(from), _mm_setzero_si128()));
#else
  shorts packed;
  std::memcpy(&packed, from, sizeof(packed));
  return __builtin_convertvector(packed, words);
#endif
}

/// The lower halves of the words.
SWITCHYARD_INLINE void store_words(void* to, words value) {
#if defined(__x86_64__) && !defined(__AVX2__)
  const __m128i extended = _mm_srai_epi32(_mm_slli_epi32(bits_of<__m128i>(value), 16), 16);
  _mm_storeu_si64(to, _mm_packs_epi32(extended, extended));
#else
  const shorts packed = __builtin_convertvector(value, shorts);
  std::memcpy(to, &packed, sizeof(packed));
#endif
}

SWITCHYARD_INLINE floats load(const half* from) {
#if defined(__AVX512F__)
  // The maskless forms read an undefined register, of which GCC 12 warns.
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__) && defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__aarch64__)
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(from))));
#else
  const words wide = load_words(from);
  const words magnitude = (wide & 0x7FFFU) << 13;
  // Read as a float, the shifted magnitude is 2^-112 of the value, subnormals included.
  const words scaled = bits_of<words>(bits_of<floats>(magnitude) * 0x1p112F);
  const ints special = signed_words(magnitude) >= 0x0F80'0000;
  return bits_of<floats>(select(special, magnitude | 0x7F80'0000U, scaled) | (wide & 0x8000U) << 16);
#endif
}

SWITCHYARD_INLINE floats load(const bfloat* from) {
  return bits_of<floats>(load_words(from) << 16);
}

/// Bytes, widened.
SWITCHYARD_INLINE words load_bytes(const void* from) {
#if defined(__AVX512F__)
  return bits_of<words>(
      _mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_loadu_si128(static_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return bits_of<words>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from))));
#elif defined(__x86_64__)
  const __m128i pairs = _mm_unpacklo_epi8(_mm_loadu_si32(from), _mm_setzero_si128());
  return bits_of<words>(_mm_unpacklo_epi16(pairs, _mm_setzero_si128()));
#else
  std::array<std::uint8_t, lanes> packed;
  std::memcpy(packed.data(), from, sizeof(packed));
  words result;
  for (std::size_t lane = 0; lane < lanes; ++lane) result[lane] = packed[lane];
  return result;
#endif
}

SWITCHYARD_INLINE floats load(const float8* from) {
  const words wide = load_bytes(from);
  const words magnitude = wide & 0x7FU;
  // Read as a float, the shifted magnitude is 2^-120 of the value, subnormals included.
  const words scaled = bits_of<words>(bits_of<floats>(magnitude << 20) * 0x1p120F);
  const ints special = signed_words(magnitude) == 0x7F;
  return bits_of<floats>(select(special, words{} + 0x7FC0'0000U, scaled) | (wide & 0x80U) << 24);
}

SWITCHYARD_INLINE floats load(const double* from) {
  floats result;
  for (std::size_t lane = 0; lane < lanes; ++lane) result[lane] = static_cast<float>(from[lane]);
  return result;
}

SWITCHYARD_INLINE void store(float* to, floats value) {
  std::memcpy(to, &value, sizeof(value));
}

SWITCHYARD_INLINE void store(half* to, floats value) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(0xFFFF, value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__) && defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
  vst1_u16(reinterpret_cast<std::uint16_t*>(to), vreinterpret_u16_f16(vcvt_f16_f32(value)));
#else
  const words bits = bits_of<words>(value);
  const words magnitude = bits & 0x7FFF'FFFFU;
  const words normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding 1/2 leaves a multiple of 2^-24, the unit of subnormals, rounded as the addition rounds.
  const words subnormal = bits_of<words>(bits_of<floats>(magnitude) + 0.5F) - 0x3F00'0000U;
  words result = select(signed_words(magnitude) < 0x3880'0000, subnormal, normal);
  result = select(signed_words(magnitude) >= 0x4780'0000, words{} + 0x7C00U, result);
  result = select(signed_words(magnitude) > 0x7F80'0000, words{} + 0x7E00U, result);
  store_words(to, result | (bits >> 16 & 0x8000U));
#endif
}

SWITCHYARD_INLINE void store(bfloat* to, floats value) {
  const words bits = bits_of<words>(value);
  const words rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const ints is_nan = signed_words(bits & 0x7FFF'FFFFU) > 0x7F80'0000;
  store_words(to, select(is_nan, (bits >> 16) | 0x40U, rounded));
}

/// The first `count` elements, zeros behind them; nothing behind them is touched.
template <class Element>
SWITCHYARD_INLINE floats load_first(const Element* from, std::size_t count) {
  std::array<Element, lanes> buffer{};
  std::memcpy(buffer.data(), from, count * sizeof(Element));
  return load(buffer.data());
}

template <class Element>
SWITCHYARD_INLINE void store_first(Element* to, floats value, std::size_t count) {
  std::array<Element, lanes> buffer;
  store(buffer.data(), value);
  std::memcpy(to, buffer.data(), count * sizeof(Element));
}

// ---- across lanes

template <std::size_t... Lane>
SWITCHYARD_INLINE floats interleave_low(floats a, floats b, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(a, b, (static_cast<int>(Lane / 2 + (Lane % 2) * lanes))...);
}
template <std::size_t... Lane>
SWITCHYARD_INLINE floats interleave_high(floats a, floats b, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(a, b, (static_cast<int>(lanes / 2 + Lane / 2 + (Lane % 2) * lanes))...);
}
using lane_sequence = std::make_index_sequence<lanes>;

/// a0 b0 a1 b1 … of the lower halves, and of the upper halves.
SWITCHYARD_INLINE floats interleave_low(floats a, floats b) {
  return interleave_low(a, b, lane_sequence{});
}
SWITCHYARD_INLINE floats interleave_high(floats a, floats b) {
  return interleave_high(a, b, lane_sequence{});
}

template <std::size_t... Lane>
SWITCHYARD_INLINE floats even_lanes(floats a, floats b, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(a, b, (static_cast<int>(2 * Lane))...);
}
template <std::size_t... Lane>
SWITCHYARD_INLINE floats odd_lanes(floats a, floats b, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(a, b, (static_cast<int>(2 * Lane + 1))...);
}
/// Every second lane of a followed by b: undoes the interleaving.
SWITCHYARD_INLINE floats even_lanes(floats a, floats b) {
  return even_lanes(a, b, lane_sequence{});
}
SWITCHYARD_INLINE floats odd_lanes(floats a, floats b) {
  return odd_lanes(a, b, lane_sequence{});
}

using square = std::array<floats, lanes>;

/// Rows to columns: log2(lanes) perfect shuffles.
SWITCHYARD_INLINE void transpose(square& rows) {
  for (std::size_t step = 1; step < lanes; step *= 2) {
    square next;
    unroll<lanes / 2>([&](auto i) __attribute__((always_inline)) {
      next[2 * i] = interleave_low(rows[i], rows[i + lanes / 2]);
      next[2 * i + 1] = interleave_high(rows[i], rows[i + lanes / 2]);
    });
    rows = next;
  }
}

template <std::size_t Count>
SWITCHYARD_INLINE floats sums_step(std::array<floats, Count>& rows) {
  if constexpr (Count == 1) {
    return rows[0];
  } else {
    std::array<floats, Count / 2> next;
    unroll<Count / 2>([&](auto i) __attribute__((always_inline)) {
      next[i] = interleave_low(rows[i], rows[i + Count / 2]) + interleave_high(rows[i], rows[i + Count / 2]);
    });
    return sums_step(next);
  }
}

/// Lane i is the sum over the lanes of rows[i].
SWITCHYARD_INLINE floats sums(square rows) {
  return sums_step(rows);
}

SWITCHYARD_INLINE float sum_of(floats value) {
  std::array<float, lanes> all;
  store(all.data(), value);
  for (std::size_t width = lanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) all[i] += all[i + width];
  }
  return all[0];
}

SWITCHYARD_INLINE float largest_of(floats value) {
  std::array<float, lanes> all;
  store(all.data(), value);
  for (std::size_t width = lanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) all[i] = all[i] < all[i + width] ? all[i + width] : all[i];
  }
  return all[0];
}

// ---- functions

/// 2^x for x <= 127, within 1 ulp; 0 below -126; NaN for NaN.
SWITCHYARD_INLINE floats exp2(floats x) {
  x = select(x < splat(-126.0F), splat(-127.0F), x);
  // Adding 1.5 * 2^23 rounds to an integer, which then sits in the low bits; 127 more is the exponent field.
  const floats shifted = x + (0x1.8p23F + 127.0F);
  const floats fraction = x - (shifted - (0x1.8p23F + 127.0F));
  const floats power = bits_of<floats>(bits_of<words>(shifted) << 23);
  floats p = fraction * 1.54614447e-4F + 1.34004282e-3F;
  p = p * fraction + 9.61805668e-3F;
  p = p * fraction + 5.55032723e-2F;
  p = p * fraction + 2.40226509e-1F;
  p = p * fraction + 6.93147207e-1F;
  p = p * fraction + 1.0F;
  return p * power;
}

/// tanh(x), within a few ulp.
SWITCHYARD_INLINE floats tanh(floats x) {
  const floats magnitude = bits_of<floats>(bits_of<words>(x) & 0x7FFF'FFFFU);
  const floats decay = exp2(magnitude * (-2.0F * log2e));
  const floats far = (1.0F - decay) / (1.0F + decay);
  const floats u = x * x;
  floats p = u * -5.84964390e-3F + 2.07513491e-2F;
  p = p * u + -5.37679835e-2F;
  p = p * u + 1.33316796e-1F;
  p = p * u + -3.33332828e-1F;
  const floats near = magnitude + magnitude * u * p;
  const floats result = select(magnitude < splat(0.6F), near, far);
  return bits_of<floats>(bits_of<words>(result) | (bits_of<words>(x) & 0x8000'0000U));
}

}  // namespace
