// SPDX-License-Identifier: MIT
// Where a row lies in a tensor of rows in up to three dimensions.
#pragma once

#include <cstdint>

namespace switchyard_ggml {

/// The place of row number `row` where the first of three dimensions changes fastest.
struct row_place {
  std::int64_t i;
  std::int64_t j;
  std::int64_t k;

  row_place(std::int64_t row, const std::int64_t* extent) noexcept
      : i{row % extent[0]}, j{row / extent[0] % extent[1]}, k{row / extent[0] / extent[1]} {}

  /// Bytes from a tensor's first row.
  [[nodiscard]] std::int64_t offset(const std::int64_t* stride) const noexcept {
    return i * stride[0] + j * stride[1] + k * stride[2];
  }
};

}  // namespace switchyard_ggml
