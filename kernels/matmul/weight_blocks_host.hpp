// SPDX-License-Identifier: MIT
// Quantised weights as CPU kernels read them: 32 at a time, as floats, or as integers with what scales them.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <array>
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

/// The factors of a q4_k group: six bits each, packed into 12 bytes behind the block's two.
SWITCHYARD_INLINE factors q4_k_factors(const std::uint8_t* block, std::int64_t within) {
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
  if constexpr (Format == weight_format::q4_0) {
    const float scale = half_at(at.block);
    return {scale, -8.0F * scale};
  } else if constexpr (Format == weight_format::q4_1) {
    return {half_at(at.block), half_at(at.block + 2)};
  } else if constexpr (Format == weight_format::q4_k) {
    return q4_k_factors(at.block, at.within);
  } else {
    static_assert(Format == weight_format::q8_0 || Format == weight_format::q6_k);
    return {half_at(at.block + (Format == weight_format::q6_k ? 208 : 0)), 0};
  }
}

/// The weights of a group as floats.
template <weight_format Format>
SWITCHYARD_INLINE group_floats weights_of(const group_of<Format>& at) {
  group_floats out;
  const factors by = factors_of(at);
  if constexpr (Format == weight_format::q8_0) {
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      const words bytes = load_bytes(at.block + 2 + i * lanes);
      out[i] = __builtin_convertvector(bits_of<ints>(bytes << 24) >> 24, floats) * by.scale;
    });
  } else if constexpr (Format == weight_format::q4_0 || Format == weight_format::q4_1) {
    const std::uint8_t* const from = at.block + (Format == weight_format::q4_1 ? 4 : 2);
    unroll<group_vectors / 2>([&](auto i) __attribute__((always_inline)) {
      const words bytes = load_bytes(from + i * lanes);
      out[i] = to_floats(bytes & 15U) * by.scale + by.offset;
      out[i + group_vectors / 2] = to_floats(bytes >> 4) * by.scale + by.offset;
    });
  } else if constexpr (Format == weight_format::q4_k) {
    const std::uint8_t* const from = at.block + 16 + at.within / 2 * group;
    const auto shift = static_cast<std::uint32_t>(at.within % 2 * 4);
    unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
      out[i] = to_floats(load_bytes(from + i * lanes) >> shift & 15U) * by.scale + by.offset;
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
