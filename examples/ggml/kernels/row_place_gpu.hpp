// SPDX-License-Identifier: MIT
// Where a row lies in a tensor of rows in up to three dimensions, as in row_place.hpp.
#pragma once

#include "../../../kernels/gpu/split_index.hpp"

namespace sy {

struct place_of_row {
  i64 i;
  i64 j = 0;
  i64 k = 0;

  __device__ __forceinline__ place_of_row(i64 row, const i64 (&extent)[3]) : i{row} {
    if (extent[1] * extent[2] == 1) return;
    const split_index matrix{row, extent[0]};
    const split_index cube{matrix.quotient, extent[1]};
    i = matrix.rest;
    j = cube.rest;
    k = cube.quotient;
  }

  /// Bytes from a tensor's first row.
  [[nodiscard]] __device__ __forceinline__ i64 offset(const i64 (&stride)[3]) const {
    return i * stride[0] + j * stride[1] + k * stride[2];
  }
};

/// Whether a tensor's first row and all its strides are multiples of `bytes`, a power of two.
[[nodiscard]] __device__ __forceinline__ bool is_aligned(const void* data, const i64 (&stride)[3],
                                                         u64 bytes) {
  const u64 places = reinterpret_cast<u64>(data) | static_cast<u64>(stride[0] | stride[1] | stride[2]);
  return (places & (bytes - 1)) == 0;
}

}  // namespace sy
