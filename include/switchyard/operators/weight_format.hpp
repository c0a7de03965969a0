// SPDX-License-Identifier: MIT
// How the weights of a matrix are stored: plain, or in the blocks of quantised integers that GGUF files hold.
//
// A row is a sequence of blocks, each of `block_elements` weights in `block_bytes` bytes. d and m are f16, q
// is a weight's integer:
//
//   q8_0   32 weights: d, 32 x i8                      w = d q
//   q4_0   32 weights: d, 16 bytes                     w = d (q - 8)
//   q4_1   32 weights: d, m, 16 bytes                  w = d q + m
//   q5_0   32 weights: d, 4 bytes, 16 bytes            w = d (q - 16)
//   q5_1   32 weights: d, m, 4 bytes, 16 bytes         w = d q + m
//   iq4_nl 32 weights: d, 16 bytes                     w = d iq4_nl_values[q]
//   mxfp4  32 weights: e of eight bits, 16 bytes       w = 2^(e - 127) q, with q in e2m1
//          byte i of the 16 holds weight i in its low four bits and weight i + 16 in its high ones; bit i of
//          the 4 is the fifth of weight i. e = 255, NaN in the OCP specification, is an exponent as any, as
//          in ggml
//   q4_k   256 weights: d, m, 12 bytes, 128 bytes      w = d s q - m t, with s and t of six bits for each 32
//   q5_k   256 weights: d, m, 12 bytes, 32 + 128 bytes w = d s q - m t, as q4_k; the fifth bit of weight
//          32 g + i is bit g of byte i of the 32
//   q6_k   256 weights: 128 + 64 bytes, 16 x i8, d     w = d s (q - 32), with s of eight bits for each 16
//
// Sources: the GGUF specification and ggml's block structures, which are the file format; OCP Microscaling
// Formats (MX) Specification 1.0.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <switchyard/base/checked_product.hpp>
#include <switchyard/base/dtype.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// The values are part of the kernel ABI.
enum class weight_format : std::int32_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  q8_0 = 3,
  q4_0 = 4,
  q4_1 = 5,
  q4_k = 6,
  q6_k = 7,
  q5_k = 8,
  iq4_nl = 9,
  mxfp4 = 10,
  q5_0 = 11,
  q5_1 = 12
};

namespace formats {

struct weight_block {
  std::int64_t elements;
  std::int64_t bytes;
};
inline constexpr std::array<weight_block, 13> weight_blocks{{{1, 4},
                                                             {1, 2},
                                                             {1, 2},
                                                             {32, 34},
                                                             {32, 18},
                                                             {32, 20},
                                                             {256, 144},
                                                             {256, 210},
                                                             {256, 176},
                                                             {32, 18},
                                                             {32, 17},
                                                             {32, 22},
                                                             {32, 24}}};

/// What the four bits of an iq4_nl weight stand for.
inline constexpr std::array<std::int8_t, 16> iq4_nl_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace formats

/// Whether a value names a format.
[[nodiscard]] constexpr bool is_weight_format(weight_format format) noexcept {
  return static_cast<std::uint32_t>(format) < formats::weight_blocks.size();
}
/// Weights of one block.
[[nodiscard]] constexpr std::int64_t block_elements(weight_format format) noexcept {
  return formats::weight_blocks[static_cast<std::uint32_t>(format)].elements;
}
/// Bytes of one block.
[[nodiscard]] constexpr std::int64_t block_bytes(weight_format format) noexcept {
  return formats::weight_blocks[static_cast<std::uint32_t>(format)].bytes;
}
/// What divides the address of every block, and so of every row.
[[nodiscard]] constexpr std::int64_t block_alignment(weight_format format) noexcept {
  return format == weight_format::f32 ? 4 : format == weight_format::mxfp4 ? 1 : 2;
}
/// Bytes of a row of `columns` weights, which must be a multiple of the block's; negative where 64 bits do
/// not hold them.
[[nodiscard]] constexpr std::int64_t row_bytes(weight_format format, std::int64_t columns) noexcept {
  return detail::checked_product(columns / block_elements(format), block_bytes(format));
}

/// A matrix of weights, [rows, columns]: what a call takes where a tensor has no element type.
struct weight_matrix {
  const void* data = nullptr;
  weight_format format = weight_format::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride_bytes = -1;  ///< from row to row; -1: rows follow each other

  [[nodiscard]] constexpr std::int64_t stride() const noexcept {
    return stride_bytes >= 0 ? stride_bytes : row_bytes(format, columns);
  }
};

}  // namespace operators

template <>
inline constexpr std::array<std::string_view, 13> enumerator_names<operators::weight_format>{
    "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k", "q5_k", "iq4_nl", "mxfp4", "q5_0", "q5_1"};

}  // namespace v0
}  // namespace switchyard
