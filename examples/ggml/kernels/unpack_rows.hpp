// SPDX-License-Identifier: MIT
// Rows of blocks as plain numbers:
//
//   out[i, j, k] = x[i, j, k]
//
// Rows are contiguous; strides are in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/weight_format.hpp>

namespace switchyard_ggml {

struct unpack_rows {
  static constexpr std::string_view name = "ggml_unpack_rows";

  struct arguments {
    const void* x = nullptr;  ///< [extent[2], extent[1], extent[0], columns] in `format`
    void* out = nullptr;      ///< the same, of out_dtype

    std::int64_t columns = 0;            ///< a multiple of the format's block
    std::int64_t extent[3] = {1, 1, 1};  // NOLINT(modernize-avoid-c-arrays): fields of manifests
    std::int64_t x_stride[3] = {};       // NOLINT(modernize-avoid-c-arrays)
    std::int64_t out_stride[3] = {};     // NOLINT(modernize-avoid-c-arrays)
    switchyard::operators::weight_format format = switchyard::operators::weight_format::q8_0;
    switchyard::dtype out_dtype = switchyard::dtype::f16;

    [[nodiscard]] std::int64_t rows() const noexcept { return extent[0] * extent[1] * extent[2]; }
    [[nodiscard]] bool complete() const noexcept { return x != nullptr && out != nullptr; }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::out, &arguments::columns, &arguments::extent,
                         &arguments::x_stride, &arguments::out_stride, &arguments::format,
                         &arguments::out_dtype>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::format>(), switchyard::type_axis<&arguments::out_dtype>(),
      switchyard::type_axis<&arguments::complete>(), switchyard::size_axis<&arguments::rows>(),
      switchyard::size_axis<&arguments::columns>());

  [[nodiscard]] static std::string check(const arguments& a) {
    if (!a.complete()) return "x and out must not be null";
    if (!is_weight_format(a.format)) return "format is no weight_format";
    if (a.columns % block_elements(a.format) != 0) return "columns must be a multiple of the format's block";
    if (a.out_dtype != switchyard::dtype::f32 && a.out_dtype != switchyard::dtype::f16)
      return "out must be f32 or f16";
    return {};
  }
};

}  // namespace switchyard_ggml
