// SPDX-License-Identifier: MIT
// Calls of the linear layer with quantised weights, for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/matmul_quantized.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/weights.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::matmul_quantized> {
  static constexpr variation variations[] = {// NOLINT(modernize-avoid-c-arrays)
                                             {100, 64, true},
                                             {1e-3F, 64, true},
                                             {1, 1, false, true}};

  [[nodiscard]] static prepared_call<operators::matmul_quantized> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    using operators::weight_format;
    prepared_call<operators::matmul_quantized> out{{}, {driver, seed, want.varied()}};
    const dtype type = want.as("dtype", dtype::f32);
    const dtype out_type = want.as("out_dtype", type);
    const auto format = want.as("weights", weight_format::q4_1);
    const std::int64_t rows = want.get("rows", 1);
    const std::int64_t block = operators::block_elements(format);
    const std::int64_t in_features = (want.get("in_features", 4096) + block - 1) / block * block;
    const std::int64_t out_features = want.get("out_features", 4096);
    out.memory.require_room(dtype::f32, {out_features, in_features});
    out.memory.require_room(type, {rows, in_features});
    out.memory.require_room(out_type, {rows, out_features});
    const operators::weight_matrix w =
        random_weights(out.memory, format, out_features, in_features, seed ^ 0x77656967U);
    operators::matmul_quantized::options with{.bias = {},
                                              .int8_activations = want.flag("int8_activations"),
                                              .w_is_constant = !want.varied().options};
    if (want.flag("with_bias")) with.bias = out.memory.input(dtype::f32, {out_features});
    const std::int64_t apart = want.varied().apart;
    const tensor x = out.memory.input(type, {rows, in_features + apart});
    const tensor result = out.memory.output(out_type, {rows, out_features + apart});
    out.arguments = operators::matmul_quantized::call(
        tensor{x.data(), type, {rows, in_features}, {in_features + apart, 1}}, w,
        tensor{result.data(), out_type, {rows, out_features}, {out_features + apart, 1}}, with);
    out.bytes = static_cast<double>(out_features * w.stride() + rows * in_features * size_of(type) +
                                    rows * out_features * size_of(out_type));
    out.flops = 2 * static_cast<double>(rows) * static_cast<double>(in_features * out_features);
    return out;
  }

  /// A part of the result is up to 32 outputs of a row: a whole row of a vocabulary is too much work to
  /// check.
  static constexpr std::int64_t part_outputs = 32;
  [[nodiscard]] static std::int64_t parts(const operators::matmul_quantized::arguments& a) {
    return (a.out_features + part_outputs - 1) / part_outputs;
  }
  [[nodiscard]] static std::int64_t rows(const operators::matmul_quantized::arguments& a) {
    return a.rows * parts(a);
  }
  [[nodiscard]] static double row_work(const operators::matmul_quantized::arguments& a) {
    return 20 * static_cast<double>(a.in_features * std::min(part_outputs, a.out_features));
  }

  /// f32 arithmetic, one rounding of the result, and eight times the deviation of rounded activations.
  static void expect(const operators::matmul_quantized::arguments& a, const row_sample& sample,
                     expectation& out) {
    if (sample.rows().empty()) return;
    auto& values = out.of("out", a.out, a.out_dtype);
    std::map<std::int64_t, std::vector<std::int64_t>> rows_of;  // by the first output
    for (const std::int64_t part : sample.rows())
      rows_of[part % parts(a) * part_outputs].push_back(part / parts(a));
    for (const auto& [first, rows] : rows_of) {
      const auto wanted =
          reference::matmul_quantized(a, rows, first, std::min(part_outputs, a.out_features - first));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t n = 0; n < wanted[i].size(); ++n) {
          const auto& [value, magnitude, deviation] = wanted[i][n];
          values.want(rows[i] * a.out_stride_row + first + static_cast<std::int64_t>(n), value,
                      arithmetic_error(a.in_features, magnitude) + 8 * deviation + smallest_of(a.out_dtype) +
                          unit_of(a.out_dtype) * std::abs(value));
        }
      }
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
