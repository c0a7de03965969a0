// SPDX-License-Identifier: MIT
// Tensors of any shape as rows of columns, for operators on rows.
//
// The last dimension is the columns. The others are walked in the order of the first tensor's strides, so
// that a transposed tensor needs no copy: results have that order too. A tensor whose rows do not follow each
// other at one distance in this order, or whose columns are strided, is copied.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <switchyard/tensor.hpp>

#include "invocation.hpp"

namespace switchyard_torch {

class rows {
 public:
  static constexpr std::size_t max_rank = 16;

  /// The shape and order of a call's first tensor. `columns_per_result`: columns of it for one of a result, 2
  /// where it holds gate and up.
  rows(const invocation& call, const Tensor& first, std::int64_t columns_per_result = 1);

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0 || columns_ == 0; }

  /// The tensor, or a copy that is rows in this order. Throws call_error where its shape differs.
  [[nodiscard]] Tensor fit(const Tensor& tensor, const char* name, std::int64_t columns) const;
  [[nodiscard]] Tensor fit(const Tensor& tensor, const char* name) const {
    return fit(tensor, name, columns_);
  }
  [[nodiscard]] optional_tensor fit(const optional_tensor& tensor, const char* name) const;

  /// [rows, columns] of a tensor that fits.
  [[nodiscard]] switchyard::tensor view(const Tensor& tensor, const char* name) const;
  [[nodiscard]] switchyard::tensor view(const optional_tensor& tensor, const char* name) const;
  /// [rows] of a tensor that empty_per_row made.
  [[nodiscard]] switchyard::tensor view_per_row(const Tensor& tensor, const char* name) const;

  /// A new tensor of the shape, in the order.
  [[nodiscard]] Tensor empty(std::int32_t dtype) const { return empty(dtype, columns_); }
  [[nodiscard]] Tensor empty(std::int32_t dtype, std::int64_t columns) const;
  /// A new f32 tensor with one element a row: the shape without its last dimension.
  [[nodiscard]] Tensor empty_per_row() const;

 private:
  /// The distance of rows; -1 where they are at several.
  [[nodiscard]] std::int64_t row_stride(const Tensor& tensor) const;

  const invocation& call_;
  std::size_t rank_;
  std::int64_t columns_;
  std::int64_t count_ = 1;
  std::array<std::int64_t, max_rank> sizes_{};
  std::array<std::size_t, max_rank> order_{};  ///< of all dimensions but the last, outermost first
};

}  // namespace switchyard_torch
