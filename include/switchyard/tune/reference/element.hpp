// SPDX-License-Identifier: MIT
// Reads and writes elements of any floating-point tensor type, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/float16.hpp>
#include <switchyard/base/float8.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

[[nodiscard]] inline double load(dtype type, const void* data, std::int64_t index) {
  switch (type) {
    case dtype::f16:
      return static_cast<double>(f16_to_float(static_cast<const std::uint16_t*>(data)[index]));
    case dtype::bf16:
      return static_cast<double>(bf16_to_float(static_cast<const std::uint16_t*>(data)[index]));
    case dtype::f32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case dtype::f64:
      return static_cast<const double*>(data)[index];
    case dtype::f8_e4m3:
      return static_cast<double>(f8_e4m3_to_float(static_cast<const std::uint8_t*>(data)[index]));
    default:
      throw std::invalid_argument{"reference::load: not a floating-point type the references know"};
  }
}

inline void store(dtype type, void* data, std::int64_t index, double value) {
  switch (type) {
    case dtype::f16:
      static_cast<std::uint16_t*>(data)[index] = f16_from(value);
      return;
    case dtype::bf16:
      static_cast<std::uint16_t*>(data)[index] = bf16_from(value);
      return;
    case dtype::f32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case dtype::f64:
      static_cast<double*>(data)[index] = value;
      return;
    case dtype::f8_e4m3:
      static_cast<std::uint8_t*>(data)[index] = f8_e4m3_from(value);
      return;
    default:
      throw std::invalid_argument{"reference::store: not a floating-point type the references know"};
  }
}

/// A value as it is after being stored in a type.
[[nodiscard]] inline double rounded(dtype type, double value) {
  switch (type) {
    case dtype::f16:
      return static_cast<double>(f16_to_float(f16_from(value)));
    case dtype::bf16:
      return static_cast<double>(bf16_to_float(bf16_from(value)));
    case dtype::f32:
      return static_cast<double>(static_cast<float>(value));
    case dtype::f8_e4m3:
      return static_cast<double>(f8_e4m3_to_float(f8_e4m3_from(value)));
    default:
      return value;
  }
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
