// SPDX-License-Identifier: MIT
// Products of extents and strides that may not fit 64 bits.
#pragma once

#include <cstdint>

#include <switchyard/base/cpp20.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// What a product becomes that 64 bits do not hold: negative, so that every check of strides refuses it.
inline constexpr std::int64_t too_large = INT64_MIN;

/// a * b, or too_large.
[[nodiscard, gnu::always_inline]] constexpr std::int64_t checked_product(std::int64_t a,
                                                                         std::int64_t b) noexcept {
  std::int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? too_large : out;
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
