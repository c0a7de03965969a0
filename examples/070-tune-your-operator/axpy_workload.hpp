// SPDX-License-Identifier: MIT
// Calls of axpy for measuring, and what their results must be. This is all that tuning an operator takes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/element.hpp>
#include <switchyard/tune/workload.hpp>

#include "../040-own-operator/axpy.hpp"

namespace switchyard::tune {

template <>
struct workload<engine::axpy> {
  using arguments = engine::axpy::arguments;

  /// Results are checked in parts of this many elements; of large calls, a sample of the parts.
  static constexpr std::int64_t part = 4096;

  /// A call with the axis values asked for.
  [[nodiscard]] static prepared_call<engine::axpy> make(const std::shared_ptr<device_driver>& driver,
                                                        const request& want, std::uint64_t seed) {
    prepared_call<engine::axpy> out{{}, {driver, seed}};
    arguments& a = out.arguments;
    a.a = 0.5F;
    a.dtype = want.as("dtype", dtype::f32);
    a.n = want.get("n", 1 << 20);
    out.memory.require_room(a.dtype, {a.n});
    a.x = out.memory.random(a.dtype, a.n);
    a.y = out.memory.random(a.dtype, a.n);
    const auto n = static_cast<double>(a.n);
    out.bytes = 3 * n * static_cast<double>(size_of(a.dtype));
    out.flops = 2 * n;
    return out;
  }

  [[nodiscard]] static std::int64_t rows(const arguments& a) { return (a.n + part - 1) / part; }
  [[nodiscard]] static double row_work(const arguments& /*unused*/) { return 2 * part; }

  /// What the definition writes to y, in double precision, and by how much a kernel may be off.
  static void expect(const arguments& a, const row_sample& sample, expectation& out) {
    auto& values = out.of("y", a.y, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      const std::int64_t end = std::min(a.n, (row + 1) * part);
      for (std::int64_t i = row * part; i < end; ++i) {
        const double product = static_cast<double>(a.a) * reference::load(a.dtype, a.x, i);
        const double before = reference::load(a.dtype, a.y, i);
        const double allowed = unit_of(a.dtype) * (std::abs(product) + std::abs(before)) * 2;
        values.want(i, before + product, allowed + smallest_of(a.dtype));
      }
    }
  }
};

}  // namespace switchyard::tune
