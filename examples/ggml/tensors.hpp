// SPDX-License-Identifier: MIT
// ggml's tensors as Switchyard's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>

#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tensor.hpp>

#include "calls.hpp"
#include "ggml.h"

namespace switchyard_ggml {

/// The element type of plain tensors.
[[nodiscard]] std::optional<switchyard::dtype> dtype_of(const ggml_tensor* of);

/// The format of matrices that products and gathers read.
[[nodiscard]] std::optional<switchyard::operators::weight_format> format_of(const ggml_tensor* of);

/// Strides in elements; none where one is no multiple of the element's size, or the innermost is not 1.
[[nodiscard]] std::optional<std::array<std::int64_t, 4>> element_strides(const ggml_tensor* of);

/// A parameter of a node.
template <class Value>
[[nodiscard]] Value parameter(const ggml_tensor* of, std::size_t index) {
  Value out;
  static_assert(sizeof out == sizeof of->op_params[0]);
  std::memcpy(&out, &of->op_params[index], sizeof out);
  return out;
}

/// The rows of a tensor, in some of its matrices.
struct row_block {
  std::int64_t rows = 0;
  std::int64_t second = 0;  ///< index of the first matrix in dimensions 2 and 3
  std::int64_t third = 0;
  bool is_whole = false;  ///< all rows of the tensor, one stride apart
};

/// The distance in bytes between neighbouring rows of a tensor, where it is the same for all.
[[nodiscard]] std::optional<std::int64_t> row_stride(const ggml_tensor* of);

/// `rows` of a tensor as [rows, columns]; null data where its type or its strides do not allow that.
[[nodiscard]] switchyard::tensor rows_of(const calls& with, const ggml_tensor* of, const row_block& rows,
                                         std::int64_t first_column, std::int64_t columns);
[[nodiscard]] inline switchyard::tensor rows_of(const calls& with, const ggml_tensor* of,
                                                const row_block& rows) {
  return rows_of(with, of, rows, 0, of->ne[0]);
}

/// Calls visit(row_block) for all rows of tensors whose dimensions 1 to 3 are the same: at once where each
/// has one stride, else matrix by matrix. Who only asks visits the first. Ends with the first false.
template <class Visit>
[[nodiscard]] bool for_each_rows(const calls& with, std::initializer_list<const ggml_tensor*> tensors,
                                 Visit&& visit) {
  const ggml_tensor* const any = *tensors.begin();
  bool is_whole = true;
  for (const ggml_tensor* tensor : tensors) is_whole = is_whole && row_stride(tensor).has_value();
  if (is_whole) return visit(row_block{any->ne[1] * any->ne[2] * any->ne[3], 0, 0, true});
  for (std::int64_t third = 0; third < any->ne[3]; ++third) {
    for (std::int64_t second = 0; second < any->ne[2]; ++second) {
      if (!visit(row_block{any->ne[1], second, third, false})) return false;
      if (with.is_asking()) return true;
    }
  }
  return true;
}

}  // namespace switchyard_ggml
