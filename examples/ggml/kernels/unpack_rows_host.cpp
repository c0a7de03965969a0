// SPDX-License-Identifier: MIT
// Unpacks rows of blocks on the CPU. A block of the grid takes an equal share of the rows.
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "../../../kernels/host/row.hpp"
#include "../../../kernels/matmul/weight_blocks_host.hpp"
#include "row_place.hpp"
#include "unpack_rows.hpp"

namespace {

using switchyard::host::block;
using unpack_arguments = switchyard_ggml::unpack_rows::arguments;

template <weight_format Format, class Element>
void unpack(const block& here, unpack_arguments of) {
  const row_range range{of.rows(), here.grid.x, here.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const switchyard_ggml::row_place place{row, of.extent};
    const auto* const from = static_cast<const std::uint8_t*>(of.x) + place.offset(of.x_stride);
    auto* const to =
        reinterpret_cast<Element*>(static_cast<std::uint8_t*>(of.out) + place.offset(of.out_stride));
    for (std::int64_t first = 0; first < of.columns; first += group) {
      const group_floats values = row_weights<Format>(from, first / group, of.columns);
      unroll<group_vectors>([&](auto at) __attribute__((always_inline)) {
        store(to + first + at() * lanes, values[at]);
      });
    }
  }
}

}  // namespace
