// SPDX-License-Identifier: MIT
// Writes rows into a tensor at given places, ggml's SET_ROWS:
//
//   out[ids[i, j mod, k mod], j, k] = x[i, j, k]
//
// Rows are contiguous; strides are in bytes. A block of q8_0 has the scale largest / 127, and integers
// rounded to nearest, halves away from zero.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/weight_format.hpp>

namespace switchyard_ggml {

struct set_rows {
  static constexpr std::string_view name = "ggml_set_rows";

  struct arguments {
    const void* x = nullptr;    ///< [extent[2], extent[1], extent[0], columns]
    const void* ids = nullptr;  ///< [ids_extent[1], ids_extent[0], extent[0]] of ids_dtype
    void* out = nullptr;        ///< [extent[2], extent[1], out_rows, columns]

    std::int64_t columns = 0;
    std::int64_t out_rows = 0;
    std::int64_t extent[3] = {1, 1, 1};   // NOLINT(modernize-avoid-c-arrays): fields of manifests
    std::int64_t ids_extent[2] = {1, 1};  // NOLINT(modernize-avoid-c-arrays): divide extent[1], extent[2]
    std::int64_t x_stride[3] = {};        // NOLINT(modernize-avoid-c-arrays)
    std::int64_t ids_stride[3] = {};      // NOLINT(modernize-avoid-c-arrays)
    std::int64_t out_stride[3] = {};      // NOLINT(modernize-avoid-c-arrays)
    switchyard::dtype x_dtype = switchyard::dtype::f32;
    switchyard::dtype ids_dtype = switchyard::dtype::i64;
    switchyard::operators::weight_format out_format = switchyard::operators::weight_format::f32;

    [[nodiscard]] std::int64_t rows() const noexcept { return extent[0] * extent[1] * extent[2]; }
    [[nodiscard]] bool complete() const noexcept { return x != nullptr && ids != nullptr && out != nullptr; }

    /// The row that row `i` of matrix (j, k) goes to.
    [[nodiscard]] std::int64_t place_of(std::int64_t i, std::int64_t j, std::int64_t k) const noexcept {
      const auto* const at = static_cast<const unsigned char*>(ids) + i * ids_stride[0] +
                             j % ids_extent[0] * ids_stride[1] + k % ids_extent[1] * ids_stride[2];
      if (ids_dtype == switchyard::dtype::i32) {
        std::int32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
      }
      std::int64_t value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::ids, &arguments::out, &arguments::columns,
                         &arguments::out_rows, &arguments::extent, &arguments::ids_extent,
                         &arguments::x_stride, &arguments::ids_stride, &arguments::out_stride,
                         &arguments::x_dtype, &arguments::ids_dtype, &arguments::out_format>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::x_dtype>(), switchyard::type_axis<&arguments::ids_dtype>(),
      switchyard::type_axis<&arguments::out_format>(), switchyard::type_axis<&arguments::complete>(),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  [[nodiscard]] static std::string check(const arguments& a) {
    using switchyard::dtype;
    using switchyard::operators::weight_format;
    if (!a.complete()) return "x, ids and out must not be null";
    if (a.ids_dtype != dtype::i32 && a.ids_dtype != dtype::i64) return "ids must be i32 or i64";
    if (a.x_dtype != dtype::f32 && a.x_dtype != dtype::f16 && a.x_dtype != dtype::bf16)
      return "x must be f32, f16 or bf16";
    if (a.out_format != weight_format::f32 && a.out_format != weight_format::f16 &&
        a.out_format != weight_format::bf16 && a.out_format != weight_format::q8_0)
      return "out must be f32, f16, bf16 or q8_0";
    if (a.columns % block_elements(a.out_format) != 0) return "rows of q8_0 must be multiples of 32";
    return {};
  }

  /// Places are rows of out.
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    for (std::int64_t k = 0; k < a.ids_extent[1]; ++k) {
      for (std::int64_t j = 0; j < a.ids_extent[0]; ++j) {
        for (std::int64_t i = 0; i < a.extent[0]; ++i) {
          const std::int64_t place = a.place_of(i, j, k);
          if (place >= 0 && place < a.out_rows) continue;
          return "ids[" + std::to_string(k) + ", " + std::to_string(j) + ", " + std::to_string(i) + "] is " +
                 std::to_string(place) + ": it must be at least 0 and below " + std::to_string(a.out_rows) +
                 ", the rows of out";
        }
      }
    }
    return {};
  }
};

}  // namespace switchyard_ggml
