// SPDX-License-Identifier: MIT
// Writes rows at given places on the CPU. A block takes an equal share of the rows.
#include <cstdint>
#include <cstring>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "../../../kernels/host/row.hpp"
#include "set_rows.hpp"

namespace {

using switchyard::dtype;
using switchyard::host::block;
using row_arguments = switchyard_ggml::set_rows::arguments;

template <class From, class To>
void convert_row(const void* from, void* to, std::int64_t columns) {
  const auto* const x = static_cast<const From*>(from);
  auto* const out = static_cast<To*>(to);
  for_row(
      columns, [&](std::int64_t c, auto, auto count)
                   __attribute__((always_inline)) { store_some(out + c, load_some(x + c, count), count); });
}

template <class From>
void write_row(dtype type, const void* from, void* to, std::int64_t columns) {
  if (type == dtype::f32) return convert_row<From, float>(from, to, columns);
  if (type == dtype::f16) return convert_row<From, half>(from, to, columns);
  return convert_row<From, bfloat>(from, to, columns);
}

void set_rows(const block& here, row_arguments of) {
  const row_range range{of.rows(), here.grid.x, here.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const std::int64_t i = row % of.extent[0];
    const std::int64_t j = row / of.extent[0] % of.extent[1];
    const std::int64_t k = row / of.extent[0] / of.extent[1];
    const auto* const from =
        static_cast<const std::uint8_t*>(of.x) + i * of.x_stride[0] + j * of.x_stride[1] + k * of.x_stride[2];
    auto* const to = static_cast<std::uint8_t*>(of.out) + of.place_of(i, j, k) * of.out_stride[0] +
                     j * of.out_stride[1] + k * of.out_stride[2];
    if (of.x_dtype == of.out_dtype) {
      std::memcpy(to, from, static_cast<std::size_t>(of.columns * switchyard::size_of(of.out_dtype)));
    } else if (of.x_dtype == dtype::f32) {
      write_row<float>(of.out_dtype, from, to, of.columns);
    } else if (of.x_dtype == dtype::f16) {
      write_row<half>(of.out_dtype, from, to, of.columns);
    } else {
      write_row<bfloat>(of.out_dtype, from, to, of.columns);
    }
  }
}

}  // namespace
