// SPDX-License-Identifier: MIT
// How far results of floating-point arithmetic may be off: what checks of variants allow.
#pragma once

#include <cmath>
#include <cstdint>

#include <switchyard/base/dtype.hpp>

namespace switchyard {
inline namespace v0 {

/// Distance between neighbouring values of a type near 1.
[[nodiscard]] inline double unit_of(dtype type) {
  return type == dtype::bf16 ? 0x1p-7 : type == dtype::f16 ? 0x1p-10 : 0x1p-23;
}

/// Distance between neighbouring values of a type near 0, where f16 runs out of exponents.
[[nodiscard]] inline double smallest_of(dtype type) {
  return type == dtype::f16 ? 0x1p-24 : 0;
}

/// The error that f32 arithmetic may have over `count` terms of this magnitude, summed in a tree: 16 f32
/// units for each level.
[[nodiscard]] inline double arithmetic_error(std::int64_t count, double magnitude) {
  return 16 * 0x1p-24 * (1 + std::log2(static_cast<double>(count) + 1)) * magnitude;
}

}  // namespace v0
}  // namespace switchyard
