// SPDX-License-Identifier: MIT
// Gathers rows of a table, quantised or not, on the CPU: a block takes some rows. Compiled once for each
// instruction set.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/embedding.hpp>

#include "../host/instantiate.hpp"
#include "../matmul/weight_blocks_host.hpp"

namespace {

using switchyard::host::block;
using embedding_arguments = switchyard::operators::embedding::arguments;

template <weight_format Format, class Element>
void gather(const block& here, embedding_arguments a, std::int32_t block_rows) {
  const std::int64_t begin = here.index.x * static_cast<std::int64_t>(block_rows);
  const std::int64_t end = std::min(begin + block_rows, a.rows);
  for (std::int64_t row = begin; row < end; ++row) {
    auto* const out = static_cast<Element*>(a.out) + row * a.out_stride_row;
    const std::int64_t id = a.ids[row];
    const bool is_known = id >= 0 && id < a.table_rows;
    const auto* const from =
        static_cast<const std::uint8_t*>(a.table) + (is_known ? id * a.table_row_bytes : 0);
    for (std::int64_t first = 0; first < a.columns; first += group) {
      group_floats values;
      if (is_known) {
        values = row_weights<Format>(from, first / group, a.columns);
      } else {
        values.fill(splat(std::numeric_limits<float>::quiet_NaN()));
      }
      for (std::size_t i = 0; i < group_vectors; ++i) {
        const std::int64_t at = first + static_cast<std::int64_t>(i * lanes);
        const std::int64_t left = a.columns - at;
        if (left >= static_cast<std::int64_t>(lanes)) {
          store(out + at, values[i]);
        } else if (left > 0) {
          store_first(out + at, values[i], static_cast<std::size_t>(left));
        }
      }
    }
  }
}

}  // namespace
