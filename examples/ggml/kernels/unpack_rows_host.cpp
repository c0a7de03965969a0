// SPDX-License-Identifier: MIT
// Unpacks rows of blocks on the CPU. A block of the grid takes an equal share of the rows.
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "../../../kernels/host/row.hpp"
#include "../../../kernels/matmul/weight_blocks_host.hpp"
#include "unpack_rows.hpp"

namespace {

using switchyard::host::block;
using unpack_arguments = switchyard_ggml::unpack_rows::arguments;

template <weight_format Format, class Element>
void unpack(const block& here, unpack_arguments of) {
  const row_range range{of.rows(), here.grid.x, here.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const std::int64_t i = row % of.extent[0];
    const std::int64_t j = row / of.extent[0] % of.extent[1];
    const std::int64_t k = row / of.extent[0] / of.extent[1];
    const auto* const from =
        static_cast<const std::uint8_t*>(of.x) + i * of.x_stride[0] + j * of.x_stride[1] + k * of.x_stride[2];
    auto* const to = reinterpret_cast<Element*>(static_cast<std::uint8_t*>(of.out) + i * of.out_stride[0] +
                                                j * of.out_stride[1] + k * of.out_stride[2]);
    for (std::int64_t first = 0; first < of.columns; first += group) {
      const group_floats values = row_weights<Format>(from, first / group, of.columns);
      unroll<group_vectors>([&](auto at) __attribute__((always_inline)) {
        store(to + first + at() * lanes, values[at]);
      });
    }
  }
}

}  // namespace
