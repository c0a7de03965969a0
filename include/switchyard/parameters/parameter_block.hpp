// SPDX-License-Identifier: MIT
// How values are written into a kernel's parameters.
#pragma once

#include <cstddef>
#include <cstdint>

#include <switchyard/base/float16.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

inline void store_integer(std::byte* to, value_kind kind, std::int64_t value) noexcept {
  // Little-endian: the low bytes come first. Known sizes, since a copy of any size would be a call.
  switch (size_of(kind)) {
    case 8:
      __builtin_memcpy(to, &value, 8);
      break;
    case 4:
      __builtin_memcpy(to, &value, 4);
      break;
    case 2:
      __builtin_memcpy(to, &value, 2);
      break;
    default:
      __builtin_memcpy(to, &value, 1);
  }
}

inline void store_real(std::byte* to, value_kind kind, double value) noexcept {
  switch (kind) {
    case value_kind::f64:
      __builtin_memcpy(to, &value, 8);
      break;
    case value_kind::f16: {
      const std::uint16_t bits = f16_from(value);
      __builtin_memcpy(to, &bits, 2);
      break;
    }
    case value_kind::bf16: {
      const std::uint16_t bits = bf16_from(value);
      __builtin_memcpy(to, &bits, 2);
      break;
    }
    default: {
      const auto narrow = static_cast<float>(value);
      __builtin_memcpy(to, &narrow, 4);
    }
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
