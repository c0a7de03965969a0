// SPDX-License-Identifier: MIT
// Products of activations and quantised weights on the CPU.
//
//   dot         few rows: a block takes some outputs, and reads each weight once for up to four rows
//   panel       many rows: a block expands the weights of two vectors of outputs to f32, one output a lane,
//               and multiplies them with all rows, six (twelve) at a time
//   dot_int16   dot with activations rounded to 16 bits
//   panel_int8  panel with weights of four or five bits in bytes and activations rounded by a launch before
//
// The first two take activations as they are. Compiled once for each instruction set.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/tune/reference/weights.hpp>

#include "../host/instantiate.hpp"
#include "dot_int16_host.hpp"
#include "panel_int8_host.hpp"

namespace {

using switchyard::host::block;

/// What a block computes.
struct part {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_output;
  std::int64_t outputs;

  part(const block& here, const matmul_arguments& a, std::int64_t block_rows, std::int64_t block_outputs)
      : first_row{here.index.y * block_rows},
        rows{std::min(block_rows, a.rows - first_row)},
        first_output{here.index.x * block_outputs},
        outputs{std::min(block_outputs, a.out_features - first_output)} {}
};

SWITCHYARD_INLINE const std::uint8_t* weight_row(const matmul_arguments& a, std::int64_t output) {
  return static_cast<const std::uint8_t*>(a.w) + output * a.w_row_bytes;
}

/// One output of `Rows` rows. Few rows have an accumulator for each vector of a group, so that additions need
/// not wait for each other.
template <weight_format Format, std::size_t Rows>
SWITCHYARD_INLINE void dot_rows(const void* weights, const float* x, std::int64_t columns,
                                std::int64_t padded, float* out, std::int64_t out_stride) {
  constexpr std::size_t chains = Rows <= 2 ? std::min<std::size_t>(group_vectors, 4) : 1;
  std::array<std::array<floats, chains>, Rows> sums{};
  for (std::int64_t g = 0; g < padded / group; ++g) {
    const group_floats w = row_weights<Format>(weights, g, columns);
    unroll<Rows>([&](auto row) __attribute__((always_inline)) {
      const float* const from = x + static_cast<std::int64_t>(row()) * padded + g * group;
      unroll<group_vectors>([&](auto i) __attribute__((always_inline)) {
        sums[row][i % chains] += w[i] * load(from + i * lanes);
      });
    });
  }
  unroll<Rows>([&](auto row) __attribute__((always_inline)) {
    floats total = sums[row][0];
    for (std::size_t i = 1; i < chains; ++i) total += sums[row][i];
    out[static_cast<std::int64_t>(row()) * out_stride] = sum_of(total);
  });
}

/// Calls f(first row, constant number of rows) for rows in groups of four, two and one.
template <class Function>
SWITCHYARD_INLINE void by_rows(std::int64_t rows, Function f) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) f(row, std::integral_constant<std::size_t, 4>{});
  if (row + 2 <= rows) {
    f(row, std::integral_constant<std::size_t, 2>{});
    row += 2;
  }
  if (row < rows) f(row, std::integral_constant<std::size_t, 1>{});
}

/// Scratch: 4 * block_rows * (in_features rounded up to 32 + block_outputs) bytes.
template <weight_format Format>
void dot(const block& here, matmul_arguments a, std::int32_t block_rows, std::int32_t block_outputs) {
  const part mine{here, a, block_rows, block_outputs};
  const std::int64_t padded = groups_of(a) * group;
  auto* const x = reinterpret_cast<float*>(here.scratch.data());
  float* const results = x + block_rows * padded;
  for (std::int64_t row = 0; row < mine.rows; ++row)
    stage_activations(a, mine.first_row + row, x + row * padded);
  for (std::int64_t n = 0; n < mine.outputs; ++n) {
    const std::uint8_t* const weights = weight_row(a, mine.first_output + n);
    by_rows(
        mine.rows, [&](std::int64_t row, auto count) __attribute__((always_inline)) {
          dot_rows<Format, count()>(weights, x + row * padded, a.in_features, padded,
                                    results + row * block_outputs + n, block_outputs);
        });
  }
  for (std::int64_t row = 0; row < mine.rows; ++row)
    store_results(a, mine.first_row + row, mine.first_output, results + row * block_outputs, mine.outputs);
}

/// Outputs of a panel: two vectors of them.
constexpr std::int64_t panel_outputs = 2 * lanes;
/// Outputs of a block, in panels one after the other: the same for all instruction sets.
constexpr std::int64_t panel_block_outputs = 32;
/// Rows that are multiplied with a panel at a time: as many as registers hold sums of.
constexpr std::size_t panel_rows = many_registers ? 12 : 6;

/// The weights of up to panel_outputs outputs, [columns][panel_outputs], zeros behind the last output.
template <weight_format Format>
void expand_panel(const matmul_arguments& a, std::int64_t first, std::int64_t outputs, std::int64_t padded,
                  float* to) {
  for (std::int64_t g = 0; g < padded / group; ++g) {
    for (std::int64_t n = 0; n < panel_outputs; n += static_cast<std::int64_t>(lanes)) {
      std::array<group_floats, lanes> weights{};
      for (std::size_t i = 0; i < lanes && n + static_cast<std::int64_t>(i) < outputs; ++i) {
        weights[i] =
            row_weights<Format>(weight_row(a, first + n + static_cast<std::int64_t>(i)), g, a.in_features);
      }
      for (std::size_t part = 0; part < group_vectors; ++part) {
        square columns;
        unroll<lanes>([&](auto i) __attribute__((always_inline)) { columns[i] = weights[i][part]; });
        transpose(columns);
        float* const at = to + (g * group + static_cast<std::int64_t>(part * lanes)) * panel_outputs + n;
        unroll<lanes>([&](auto i) __attribute__((always_inline)) {
          store(at + static_cast<std::int64_t>(i()) * panel_outputs, columns[i]);
        });
      }
    }
  }
}

template <std::size_t Rows>
SWITCHYARD_INLINE void multiply_panel(const matmul_arguments& a, const float* panel, const float* x,
                                      std::int64_t stride, std::int64_t first_row, std::int64_t first_output,
                                      std::int64_t outputs) {
  std::array<std::array<floats, 2>, Rows> sums{};
  for (std::int64_t k = 0; k < a.in_features; ++k) {
    const floats w0 = load(panel + k * panel_outputs);
    const floats w1 = load(panel + k * panel_outputs + lanes);
    unroll<Rows>([&](auto row) __attribute__((always_inline)) {
      const floats value = splat(x[static_cast<std::int64_t>(row()) * stride + k]);
      sums[row][0] += w0 * value;
      sums[row][1] += w1 * value;
    });
  }
  std::array<float, panel_outputs> results;
  unroll<Rows>([&](auto row) __attribute__((always_inline)) {
    store(results.data(), sums[row][0]);
    store(results.data() + lanes, sums[row][1]);
    store_results(a, first_row + static_cast<std::int64_t>(row()), first_output, results.data(), outputs);
  });
}

/// Scratch: 4 * (in_features rounded up to 32) * (32 + 12) bytes. A block is 32 outputs and block_rows rows.
template <weight_format Format>
void panel(const block& here, matmul_arguments a, std::int32_t block_rows) {
  const std::int64_t padded = groups_of(a) * group;
  auto* const weights = reinterpret_cast<float*>(here.scratch.data());
  float* const staged = weights + padded * panel_outputs;
  const std::int64_t first_output = here.index.x * panel_block_outputs;
  const std::int64_t last_output = std::min(first_output + panel_block_outputs, a.out_features);
  for (std::int64_t first = first_output; first < last_output; first += panel_outputs) {
    const std::int64_t outputs = std::min(panel_outputs, a.out_features - first);
    expand_panel<Format>(a, first, outputs, padded, weights);
    const std::int64_t begin = here.index.y * static_cast<std::int64_t>(block_rows);
    const std::int64_t end = std::min(begin + block_rows, a.rows);
    constexpr auto step = static_cast<std::int64_t>(panel_rows);
    std::int64_t row = begin;
    const auto rows_at = [&](std::int64_t at, std::int64_t count, std::int64_t& stride) -> const float* {
      if (a.dtype == dtype::f32) {
        stride = a.x_stride_row;
        return static_cast<const float*>(a.x) + at * stride;
      }
      stride = padded;
      for (std::int64_t i = 0; i < count; ++i) stage_activations(a, at + i, staged + i * padded);
      return staged;
    };
    std::int64_t stride = 0;
    for (; row + step <= end; row += step) {
      const float* const x = rows_at(row, step, stride);
      multiply_panel<panel_rows>(a, weights, x, stride, row, first, outputs);
    }
    while (row < end) {
      const std::int64_t left = end - row;
      const float* const x = rows_at(row, left, stride);
      by_rows(
          left, [&](std::int64_t at, auto count) __attribute__((always_inline)) {
            multiply_panel<count()>(a, weights, x + at * stride, stride, row + at, first, outputs);
          });
      row = end;
    }
  }
}

#if defined(__AVX2__)

/// Scratch: block_rows rows in 16 bits with their factors, 128 bytes for each group of a row to stage it, and
/// 4 for each result.
template <weight_format Format>
void dot_int16(const block& here, matmul_arguments a, std::int32_t block_rows, std::int32_t block_outputs) {
  const part mine{here, a, block_rows, block_outputs};
  const std::int64_t groups = groups_of(a);
  const rounded_rows<std::int16_t> x{here.scratch.data(), block_rows, groups};
  auto* const staged = reinterpret_cast<float*>(x.factors + block_rows * groups);
  float* const results = staged + groups * group;
  for (std::int64_t row = 0; row < mine.rows; ++row) {
    stage_activations(a, mine.first_row + row, staged);
    round_row(staged, x, row);
  }
  by_rows(
      mine.rows, [&](std::int64_t row, auto count) __attribute__((always_inline)) {
        constexpr std::size_t together = 4 / count();
        const auto dot_at = [&](std::int64_t n, auto outputs) __attribute__((always_inline)) {
          dot_rows_int16<Format, count(), outputs()>(
              [&](std::size_t i) {
                return weight_row(a, mine.first_output + n + static_cast<std::int64_t>(i));
              },
              x, row, results + row * block_outputs + n, block_outputs,
              static_cast<std::int64_t>(outputs()) * a.w_row_bytes);
        };
        std::int64_t n = 0;
        for (; n + static_cast<std::int64_t>(together) <= mine.outputs;
             n += static_cast<std::int64_t>(together))
          dot_at(n, std::integral_constant<std::size_t, together>{});
        if constexpr (together > 1) {
          for (; n < mine.outputs; ++n) dot_at(n, std::integral_constant<std::size_t, 1>{});
        }
      });
  for (std::int64_t row = 0; row < mine.rows; ++row)
    store_results(a, mine.first_row + row, mine.first_output, results + row * block_outputs, mine.outputs);
}

/// Rounds rows of x for panel_int8. Scratch: 4 * (in_features rounded up to 32) bytes.
void round_rows(const block& here, matmul_arguments a, void* rounded) {
  const rounded_rows<std::int8_t> to{rounded, a.rows, groups_of(a)};
  auto* const staged = reinterpret_cast<float*>(here.scratch.data());
  stage_activations(a, here.index.x, staged);
  round_row(staged, to, here.index.x);
}

/// A block is a panel of 16 outputs and block_rows rows. Scratch: 20 * in_features bytes, of which 128 are
/// for the factors of each group.
template <weight_format Format>
void panel_int8(const block& here, matmul_arguments a, std::int32_t block_rows, const void* rounded) {
  const part mine{here, a, block_rows, int8_panel::outputs};
  const std::int64_t groups = groups_of(a);
  const rounded_rows<std::int8_t> x{const_cast<void*>(rounded), a.rows, groups};
  const int8_panel panel_of{here.scratch.data(), groups};
  panel_of.fill<Format>([&](std::int64_t n) { return weight_row(a, mine.first_output + n); }, mine.outputs);
  std::array<float, 4 * int8_panel::outputs> results;
  by_rows(
      mine.rows, [&](std::int64_t row, auto count) __attribute__((always_inline)) {
        panel_of.multiply<Format, count()>(x, mine.first_row + row, results.data());
        for (std::size_t i = 0; i < count(); ++i)
          store_results(a, mine.first_row + row + static_cast<std::int64_t>(i), mine.first_output,
                        results.data() + i * int8_panel::outputs, mine.outputs);
      });
}

#endif

double activation_at(const matmul_arguments& a, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * a.x_stride_row + column;
  if (a.dtype == dtype::f32) return static_cast<double>(static_cast<const float*>(a.x)[at]);
  if (a.dtype == dtype::f16) return static_cast<double>(to_float(static_cast<const half*>(a.x)[at]));
  return static_cast<double>(to_float(static_cast<const bfloat*>(a.x)[at]));
}

/// The definition, in double, a row a block.
void reference(const block& here, matmul_arguments a) {
  const std::int64_t row = here.index.x;
  for (std::int64_t n = 0; n < a.out_features; ++n) {
    double sum = a.bias != nullptr ? static_cast<double>(a.bias[n]) : 0;
    const std::uint8_t* const weights = weight_row(a, n);
    for (std::int64_t k = 0; k < a.in_features; ++k)
      sum += switchyard::reference::weight_at(a.weights, weights, k) * activation_at(a, row, k);
    const std::int64_t at = row * a.out_stride_row + n;
    if (a.out_dtype == dtype::f32) static_cast<float*>(a.out)[at] = static_cast<float>(sum);
    if (a.out_dtype == dtype::f16) static_cast<half*>(a.out)[at] = from_double<half>(sum);
    if (a.out_dtype == dtype::bf16) static_cast<bfloat*>(a.out)[at] = from_double<bfloat>(sum);
  }
}

}  // namespace
