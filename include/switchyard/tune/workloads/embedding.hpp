// SPDX-License-Identifier: MIT
// Calls that gather rows of a table, for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/weights.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/weights.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::embedding> {
  static constexpr variation variations[] = {// NOLINT(modernize-avoid-c-arrays)
                                             {1, 64, true},
                                             {1, 1, false, true}};

  /// Random rows of a table of 32,768.
  [[nodiscard]] static prepared_call<operators::embedding> make(const std::shared_ptr<device_driver>& driver,
                                                                const request& want, std::uint64_t seed) {
    using operators::weight_format;
    constexpr std::int64_t table_rows = 32768;
    prepared_call<operators::embedding> out{{}, {driver, seed, want.varied()}};
    const dtype type = want.as("dtype", dtype::f32);
    const auto format = want.as("weights", weight_format::q8_0);
    const std::int64_t rows = want.get("rows", 512);
    const std::int64_t block = operators::block_elements(format);
    const std::int64_t columns = (want.get("columns", 4096) + block - 1) / block * block;
    out.memory.require_room(dtype::f32, {table_rows, columns});
    out.memory.require_room(type, {rows, columns});
    const operators::weight_matrix table =
        random_weights(out.memory, format, table_rows, columns, seed ^ 0x7461626cU);
    std::vector<std::int32_t> ids;
    std::mt19937_64 generator{seed};
    for (std::int64_t i = 0; i < rows; ++i)
      ids.push_back(static_cast<std::int32_t>(generator() % static_cast<std::uint64_t>(table_rows)));
    const std::int64_t stride = columns + want.varied().apart;
    const tensor whole = out.memory.output(type, {rows, stride});
    out.arguments = operators::embedding::call(table, out.memory.copied(ids, {rows}),
                                               tensor{whole.data(), type, {rows, columns}, {stride, 1}});
    out.bytes = static_cast<double>(rows * (table.stride() + columns * size_of(type) + 4));
    out.flops = 2 * static_cast<double>(rows * columns);
    return out;
  }

  [[nodiscard]] static std::int64_t rows(const operators::embedding::arguments& a) { return a.rows; }
  [[nodiscard]] static double row_work(const operators::embedding::arguments& a) {
    return 20 * static_cast<double>(a.columns);
  }

  /// A product and a sum in f32, rounded once.
  static void expect(const operators::embedding::arguments& a, const row_sample& sample, expectation& out) {
    if (sample.rows().empty()) return;
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      const auto* const from = static_cast<const std::uint8_t*>(a.table) + a.ids[row] * a.table_row_bytes;
      for (std::int64_t c = 0; c < a.columns; ++c) {
        const double wanted = reference::weight_at(a.weights, from, c);
        values.want(row * a.out_stride_row + c, wanted,
                    unit_of(a.dtype) * std::abs(wanted) + smallest_of(a.dtype) +
                        0x1p-20 * std::max(1.0, std::abs(wanted)));
      }
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
