// SPDX-License-Identifier: MIT
// Writes rows at given places on the CPU. A block takes an equal share of the rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "../../../kernels/host/row.hpp"
#include "row_place.hpp"
#include "set_rows.hpp"

namespace {

using switchyard::dtype;
using switchyard::host::block;
using switchyard::operators::weight_format;
using row_arguments = switchyard_ggml::set_rows::arguments;

template <class From, class To>
void convert_row(const void* from, void* to, std::int64_t columns) {
  const auto* const x = static_cast<const From*>(from);
  auto* const out = static_cast<To*>(to);
  for_row(
      columns, [&](std::int64_t c, auto, auto count)
                   __attribute__((always_inline)) { store_some(out + c, load_some(x + c, count), count); });
}

/// Blocks of q8_0: an f16 scale and 32 integers. A NaN or an infinity makes NaN of its block.
template <class From>
void quantise_row(const From* from, std::uint8_t* to, std::int64_t columns) {
  constexpr std::int64_t elements = switchyard::operators::block_elements(weight_format::q8_0);
  for (std::int64_t first = 0; first < columns; first += elements) {
    std::array<float, elements> x;
    for_row(
        elements, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          store_some(x.data() + c, load_some(from + first + c, count), count);
        });
    float largest = 0;
    bool is_finite = true;
    for (const float value : x) {
      largest = std::max(largest, std::fabs(value));
      is_finite = is_finite && std::isfinite(value);
    }
    const float scale = is_finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
    const float inverse = scale > 0 ? 1 / scale : 0;
    const std::uint16_t bits = switchyard::f16_from(static_cast<double>(scale));
    std::memcpy(to, &bits, sizeof bits);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto rounded =
          static_cast<std::int8_t>(std::round(std::min(127.0F, std::max(-127.0F, x[i] * inverse))));
      std::memcpy(to + sizeof bits + i, &rounded, sizeof rounded);
    }
    to += switchyard::operators::block_bytes(weight_format::q8_0);
  }
}

template <class From>
void write_row(weight_format format, const void* from, void* to, std::int64_t columns) {
  if (format == weight_format::f32) return convert_row<From, float>(from, to, columns);
  if (format == weight_format::f16) return convert_row<From, half>(from, to, columns);
  if (format == weight_format::bf16) return convert_row<From, bfloat>(from, to, columns);
  quantise_row(static_cast<const From*>(from), static_cast<std::uint8_t*>(to), columns);
}

[[nodiscard]] bool is_same(dtype type, weight_format format) {
  return (type == dtype::f32 && format == weight_format::f32) ||
         (type == dtype::f16 && format == weight_format::f16) ||
         (type == dtype::bf16 && format == weight_format::bf16);
}

void set_rows(const block& here, row_arguments of) {
  const row_range range{of.rows(), here.grid.x, here.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    switchyard_ggml::row_place place{row, of.extent};
    const auto* const from = static_cast<const std::uint8_t*>(of.x) + place.offset(of.x_stride);
    place.i = of.place_of(place.i, place.j, place.k);
    auto* const to = static_cast<std::uint8_t*>(of.out) + place.offset(of.out_stride);
    if (is_same(of.x_dtype, of.out_format)) {
      std::memcpy(to, from, static_cast<std::size_t>(of.columns * switchyard::size_of(of.x_dtype)));
    } else if (of.x_dtype == dtype::f32) {
      write_row<float>(of.out_format, from, to, of.columns);
    } else if (of.x_dtype == dtype::f16) {
      write_row<half>(of.out_format, from, to, of.columns);
    } else {
      write_row<bfloat>(of.out_format, from, to, of.columns);
    }
  }
}

}  // namespace
