// SPDX-License-Identifier: MIT
// Rows of activations as the CPU kernels of matmul_quantized stage them, and rows of results.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operators/matmul_quantized.hpp>

#include "weight_blocks_host.hpp"

namespace {

using switchyard::dtype;
using matmul_arguments = switchyard::operators::matmul_quantized::arguments;

SWITCHYARD_INLINE std::int64_t groups_of(const matmul_arguments& a) {
  return (a.in_features + group - 1) / group;
}

template <class Element>
void stage_row(const Element* from, float* to, std::int64_t columns) {
  constexpr auto width = static_cast<std::int64_t>(lanes);
  std::int64_t i = 0;
  for (; i + width <= columns; i += width) store(to + i, load(from + i));
  if (i < columns) {
    store(to + i, load_first(from + i, static_cast<std::size_t>(columns - i)));
    i += width;
  }
  for (; i % group != 0; i += width) store(to + i, floats{});
}

/// Row `row` of x in f32, zeros up to a multiple of 32.
inline void stage_activations(const matmul_arguments& a, std::int64_t row, float* to) {
  const std::int64_t at = row * a.x_stride_row;
  switch (a.dtype) {
    case dtype::f16:
      return stage_row(static_cast<const half*>(a.x) + at, to, a.in_features);
    case dtype::bf16:
      return stage_row(static_cast<const bfloat*>(a.x) + at, to, a.in_features);
    default:
      return stage_row(static_cast<const float*>(a.x) + at, to, a.in_features);
  }
}

template <class Element>
void store_row(const float* from, const float* bias, Element* to, std::int64_t count) {
  constexpr auto width = static_cast<std::int64_t>(lanes);
  for (std::int64_t i = 0; i < count; i += width) {
    const auto now = static_cast<std::size_t>(count - i < width ? count - i : width);
    floats value = now == lanes ? load(from + i) : load_first(from + i, now);
    if (bias != nullptr) value += now == lanes ? load(bias + i) : load_first(bias + i, now);
    if (now == lanes) {
      store(to + i, value);
    } else {
      store_first(to + i, value, now);
    }
  }
}

/// Adds the bias to results [first, first + count) of row `row` and writes them.
inline void store_results(const matmul_arguments& a, std::int64_t row, std::int64_t first, const float* from,
                          std::int64_t count) {
  const std::int64_t at = row * a.out_stride_row + first;
  const float* const bias = a.bias != nullptr ? a.bias + first : nullptr;
  switch (a.out_dtype) {
    case dtype::f16:
      return store_row(from, bias, static_cast<half*>(a.out) + at, count);
    case dtype::bf16:
      return store_row(from, bias, static_cast<bfloat*>(a.out) + at, count);
    default:
      return store_row(from, bias, static_cast<float*>(a.out) + at, count);
  }
}

}  // namespace
