// SPDX-License-Identifier: MIT
// How the weights of a matrix are stored: plain, or in the blocks of quantised integers that GGUF files hold.
//
// A row is a sequence of blocks, each of `block_elements` weights in `block_bytes` bytes. d and m are f16:
//
//   q8_0   32 weights: d, 32 x i8                      w = d q
//   q4_0   32 weights: d, 16 bytes                     w = d (q - 8)
//   q4_1   32 weights: d, m, 16 bytes                  w = d q + m
//          byte i holds weight i in its low four bits and weight i + 16 in its high ones
//   q4_k   256 weights: d, m, 12 bytes, 128 bytes      w = d s q - m t, with s and t of six bits for each 32
//   q6_k   256 weights: 128 + 64 bytes, 16 x i8, d     w = d s (q - 32), with s of eight bits for each 16
//
// Sources: the GGUF specification and ggml's block structures, which are the file format.
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
  q6_k = 7
};

namespace formats {

struct weight_block {
  std::int64_t elements;
  std::int64_t bytes;
};
inline constexpr std::array<weight_block, 8> weight_blocks{
    {{1, 4}, {1, 2}, {1, 2}, {32, 34}, {32, 18}, {32, 20}, {256, 144}, {256, 210}}};

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
inline constexpr std::array<std::string_view, 8> enumerator_names<operators::weight_format>{
    "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"};

}  // namespace v0
}  // namespace switchyard
