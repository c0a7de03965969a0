// SPDX-License-Identifier: MIT
// Walks over a row of elements in vectors, for CPU kernels that reduce rows.
//
// Private to kernels/; unnamed namespace for the reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "simd.hpp"

namespace {

/// Accumulators that a reduction spreads over, so that additions need not wait for each other.
constexpr std::size_t row_accumulators = 4;

/// Calls f(column, accumulator, count) for each vector of a row. `count` is a constant for whole vectors and
/// an integer for the rest of the row.
template <class Function>
SWITCHYARD_INLINE void for_row(std::int64_t columns, Function f) {
  constexpr auto width = static_cast<std::int64_t>(lanes);
  constexpr std::integral_constant<std::size_t, lanes> whole{};
  std::int64_t c = 0;
  for (; c + static_cast<std::int64_t>(row_accumulators) * width <= columns;
       c += static_cast<std::int64_t>(row_accumulators) * width) {
    unroll<row_accumulators>([&](auto i) __attribute__((always_inline)) {
      f(c + static_cast<std::int64_t>(i()) * width, i, whole);
    });
  }
  for (; c + width <= columns; c += width) f(c, std::integral_constant<std::size_t, 0>{}, whole);
  if (c < columns) f(c, std::integral_constant<std::size_t, 0>{}, static_cast<std::size_t>(columns - c));
}

template <class Element, class Count>
SWITCHYARD_INLINE floats load_some(const Element* from, Count count) {
  if constexpr (std::is_same_v<Count, std::size_t>) {
    return load_first(from, count);
  } else {
    return load(from);
  }
}

template <class Element, class Count>
SWITCHYARD_INLINE void store_some(Element* to, floats value, Count count) {
  if constexpr (std::is_same_v<Count, std::size_t>) {
    store_first(to, value, count);
  } else {
    store(to, value);
  }
}

/// `value` in the first lanes and `rest` in those behind them.
template <class Count>
SWITCHYARD_INLINE floats first_lanes([[maybe_unused]] Count count, floats value,
                                     [[maybe_unused]] float rest) {
  if constexpr (std::is_same_v<Count, std::size_t>) {
    for (std::size_t lane = count; lane < lanes; ++lane) value[lane] = rest;
  }
  return value;
}

using row_sums = std::array<floats, row_accumulators>;

SWITCHYARD_INLINE float total_of(const row_sums& sums) {
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// The rows of one of `blocks` equal shares.
struct row_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  row_range(std::int64_t rows, std::int64_t blocks, std::int64_t block)
      : begin{rows * block / blocks}, end{rows * (block + 1) / blocks} {}
};

}  // namespace
