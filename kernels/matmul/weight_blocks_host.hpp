// SPDX-License-Identifier: MIT
// Quantised weights as CPU kernels read them: 32 at a time, as floats, or as integers with what scales them.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <switchyard/base/float16.hpp>
#include <switchyard/operators/weight_format.hpp>

#include "../host/simd.hpp"

namespace {

using switchyard::operators::block_bytes;
using switchyard::operators::block_elements;
using switchyard::operators::weight_format;

/// Weights of a group: what one scale covers in most formats, and what kernels take in one step.
constexpr std::int64_t group = 32;
constexpr std::size_t group_vectors = group / lanes;
using group_floats = std::array<floats, group_vectors>;

[[nodiscard]] constexpr bool is_plain(weight_format format) {
  return format == weight_format::f32 || format == weight_format::f16 || format == weight_format::bf16;
}

/// An f16 anywhere.
SWITCHYARD_INLINE float half_at(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  return switchyard::f16_to_float(bits);
#endif
}

SWITCHYARD_INLINE floats to_floats(words value) {
  return __builtin_convertvector(bits_of<ints>(value), floats);
}

/// Where group `index` of a row is, and the factors of its weights: w = scale * q + offset.
template <weight_format Format>
struct group_of {
  const std::uint8_t* block;
  std::int64_t within;  ///< of the block

  SWITCHYARD_INLINE group_of(const void* row, std::int64_t index)
      : block{static_cast<const std::uint8_t*>(row) +
              index / (block_elements(Format) / group) * block_bytes(Format)},
        within{index % (block_elements(Format) / group)} {}
};

struct factors {
  float scale;
  float offset;
};

/// Whether offsets of weights are not zero.
template <weight_format Format>
constexpr bool has_offsets =
    Format == weight_format::q4_0 || Format == weight_format::q4_1 || Format == weight_format::q4_k ||
    Format == weight_format::q5_0 || Format == weight_format::q5_1 || Format == weight_format::q5_k;

/// Whether four bits stand for an integer of a table.
template <weight_format Format>
constexpr bool has_codes = Format == weight_format::iq4_nl || Format == weight_format::mxfp4;

/// Where the bits of weights begin in a block of 32: behind a scale, an offset in two formats, and in two the
/// fifth bits.
template <weight_format Format>
constexpr std::int64_t fifth_bits_at = Format == weight_format::q5_1 ? 4 : 2;
template <weight_format Format>
constexpr std::int64_t four_bits_at = block_bytes(Format) - group / 2;

/// What the codes stand for; twice the numbers of e2m1.
template <weight_format Format>
alignas(16) constexpr std::array<std::int8_t, 16> code_values =
    Format == weight_format::iq4_nl
        ? switchyard::operators::formats::iq4_nl_values
        : std::array<std::int8_t, 16>{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Half of 2^(e - 127), since code_values are doubled: below 2^-126 it is subnormal.
SWITCHYARD_INLINE float half_of_power(std::uint32_t e) {
  return bits_of<float>(e < 2 ? 0x0020'0000U << e : (e - 1) << 23);
}

/// The factors of a q4_k or q5_k group: six bits each, packed into 12 bytes behind the block's two.
SWITCHYARD_INLINE factors six_bit_factors(const std::uint8_t* block, std::int64_t within) {
  const std::uint8_t* const packed = block + 4;
  int scale = 0;
  int offset = 0;
  if (within < 4) {
    scale = packed[within] & 63;
    offset = packed[within + 4] & 63;
  } else {
    scale = (packed[within + 4] & 15) | (packed[within - 4] >> 6) << 4;
    offset = (packed[within + 4] >> 4) | (packed[within] >> 6) << 4;
  }
  return {half_at(block) * static_cast<float>(scale), -half_at(block + 2) * static_cast<float>(offset)};
}

template <weight_format Format>
SWITCHYARD_INLINE factors factors_of(const group_of<Format>& at) {
  if constexpr (Format == weight_format::q4_0 || Format == weight_format::q5_0) {
    const float scale = half_at(at.block);
    return {scale, (Format == weight_format::q4_0 ? -8.0F : -16.0F) * scale};
  } else if constexpr (Format == weight_format::q4_1 || Format == weight_format::q5_1) {
    return {half_at(at.block), half_at(at.block + 2)};
  } else if constexpr (Format == weight_format::q4_k || Format == weight_format::q5_k) {
    return six_bit_factors(at.block, at.within);
  } else if constexpr (Format == weight_format::mxfp4) {
    return {half_of_power(at.block[0]), 0};
  } else {
    static_assert(Format == weight_format::q8_0 || Format == weight_format::q6_k ||
                  Format == weight_format::iq4_nl);
    return {half_at(at.block + (Format == weight_format::q6_k ? 208 : 0)), 0};
  }
}

/// Signed bytes as floats.
SWITCHYARD_INLINE floats signed_bytes(const void* from) {
  return __builtin_convertvector(bits_of<ints>(load_bytes(from) << 24) >> 24, floats);
}

/// The integers that the codes of a group stand for.
template <weight_format Format>
SWITCHYARD_INLINE void decode(const group_of<Format>& at, std::array<std::int8_t, group>& to) {
  const std::uint8_t* const from = at.block + four_bits_at<Format>;
#if defined(__SSSE3__)
  const __m128i low_four = _mm_set1_epi8(15);
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(code_values<Format>.data()));
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  auto* const out = reinterpret_cast<__m128i*>(to.data());
  _mm_storeu_si128(out, _mm_shuffle_epi8(table, _mm_and_si128(codes, low_four)));
  _mm_storeu_si128(out + 1, _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(codes, 4), low_four)));
#else
  for (std::size_t i = 0; i < group / 2; ++i) {
    to[i] = code_values<Format>[from[i] & 15];
    to[i + group / 2] = code_values<Format>[from[i] >> 4];
  }
#endif
}

/// 16 in each lane whose bit of `bits` is set; lane 0 has bit `First`.
template <std::size_t First>
SWITCHYARD_INLINE words sixteens(std::uint32_t bits) {
  constexpr std::array<std::uint32_t, lanes> powers = [] {
    std::array<std::uint32_t, lanes> out{};
    for (std::size_t lane = 0; lane < lanes; ++lane) out[lane] = 1U << (First + lane);
    return out;
  }();
  const words found = (words{} + bits) & std::bit_cast<words>(powers);
  return select(bits_of<ints>(found) == 0, words{}, words{} + 16U);
}

/// The weights of a group as floats.
template <weight_format Format>
SWITCHYARD_INLINE group_floats weights_of(const group_of<Format>& at) {
  group_floats out;
  const factors by = factors_of(at);
  if constexpr (Format == weight_format::q8_0) {
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      out[i] = signed_bytes(at.block + 2 + i * lanes) * by.scale;
    });
  } else if constexpr (has_codes<Format>) {
    std::array<std::int8_t, group> integers;
    decode(at, integers);
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      out[i] = signed_bytes(integers.data() + i * lanes) * by.scale;
    });
  } else if constexpr (Format == weight_format::q4_0 || Format == weight_format::q4_1) {
    const std::uint8_t* const from = at.block + four_bits_at<Format>;
    unroll<group_vectors / 2>([&](auto i) __attribute__((always_inline)) {
      const words bytes = load_bytes(from + i * lanes);
      out[i] = to_floats(bytes & 15U) * by.scale + by.offset;
      out[i + group_vectors / 2] = to_floats(bytes >> 4) * by.scale + by.offset;
    });
  } else if constexpr (Format == weight_format::q5_0 || Format == weight_format::q5_1) {
    std::uint32_t fifth = 0;
    std::memcpy(&fifth, at.block + fifth_bits_at<Format>, sizeof fifth);
    unroll<group_vectors / 2>([&](auto i) __attribute__((always_inline)) {
      constexpr std::size_t first = i() * lanes;
      const words bytes = load_bytes(at.block + four_bits_at<Format> + first);
      out[i] = to_floats((bytes & 15U) | sixteens<first>(fifth)) * by.scale + by.offset;
      out[i + group_vectors / 2] =
          to_floats(bytes >> 4 | sixteens<first + group / 2>(fifth)) * by.scale + by.offset;
    });
  } else if constexpr (Format == weight_format::q4_k || Format == weight_format::q5_k) {
    const std::uint8_t* const from =
        at.block + (Format == weight_format::q5_k ? 48 : 16) + at.within / 2 * group;
    const auto shift = static_cast<std::uint32_t>(at.within % 2 * 4);
    [[maybe_unused]] const auto fifth = static_cast<std::uint32_t>(at.within);
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      words bits = load_bytes(from + i * lanes) >> shift & 15U;
      if constexpr (Format == weight_format::q5_k)
        bits |= (load_bytes(at.block + 16 + i * lanes) >> fifth & 1U) << 4;
      out[i] = to_floats(bits) * by.scale + by.offset;
    });
  } else {
    static_assert(Format == weight_format::q6_k);
    const std::int64_t half = at.within / 4;
    const std::int64_t quarter = at.within % 4;
    const std::uint8_t* const low = at.block + half * 64 + quarter % 2 * group;
    const std::uint8_t* const high = at.block + 128 + half * group;
    const auto low_shift = static_cast<std::uint32_t>(quarter / 2 * 4);
    const auto high_shift = static_cast<std::uint32_t>(quarter * 2);
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      const words bits = (load_bytes(low + i * lanes) >> low_shift & 15U) |
                         (load_bytes(high + i * lanes) >> high_shift & 3U) << 4;
      const auto scale = static_cast<std::int8_t>(at.block[192 + at.within * 2 + i * lanes / 16]);
      out[i] = (to_floats(bits) - 32.0F) * (by.scale * static_cast<float>(scale));
    });
  }
  return out;
}

/// Weights [first, first + 32) of a plain row, zeros from `columns` on.
template <class Element>
SWITCHYARD_INLINE group_floats plain_weights(const void* row, std::int64_t first, std::int64_t columns) {
  group_floats out;
  const auto* const from = static_cast<const Element*>(row) + first;
  const std::int64_t count = columns - first;
  unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
    constexpr auto at = static_cast<std::int64_t>(i * lanes);
    constexpr auto width = static_cast<std::int64_t>(lanes);
    if (count >= at + width) {
      out[i] = load(from + at);
    } else {
      out[i] = count > at ? load_first(from + at, static_cast<std::size_t>(count - at)) : floats{};
    }
  });
  return out;
}

/// Group `index` of a row of `columns` weights in any format.
template <weight_format Format>
SWITCHYARD_INLINE group_floats row_weights(const void* row, std::int64_t index,
                                           [[maybe_unused]] std::int64_t columns) {
  if constexpr (Format == weight_format::f32) {
    return plain_weights<float>(row, index * group, columns);
  } else if constexpr (Format == weight_format::f16) {
    return plain_weights<half>(row, index * group, columns);
  } else if constexpr (Format == weight_format::bf16) {
    return plain_weights<bfloat>(row, index * group, columns);
  } else {
    return weights_of(group_of<Format>{row, index});
  }
}

}  // namespace
