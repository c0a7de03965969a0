// SPDX-License-Identifier: MIT
// What the kernel `echo` reports of its parameters: each as it arrived.
#pragma once

#include <array>
#include <cstdint>

namespace echo_kernel {

struct inner {
  std::uint8_t tag = 0;
  double weight = 0;  // 7 bytes of padding before it
  std::uint16_t half = 0;
};

struct outer {
  std::int16_t first = 0;
  inner middle;
  void* pointer = nullptr;
  std::int8_t last = 0;
};

/// A by-value parameter that asks for more alignment than its members.
struct alignas(64) wide {
  std::int32_t value = 0;
};

struct report {
  std::int8_t i8 = 0;
  std::uint8_t u8 = 0;
  std::int16_t i16 = 0;
  std::uint16_t u16 = 0;
  std::int32_t i32 = 0;
  std::uint32_t u32 = 0;
  std::int64_t i64 = 0;
  std::uint64_t u64 = 0;
  std::uint16_t f16 = 0;
  std::uint16_t bf16 = 0;
  float f32 = 0;
  double f64 = 0;
  const void* pointer = nullptr;
  std::array<std::uint64_t, 2> null{1, 1};
  outer structure;
  std::int32_t wide_value = 0;
  std::uint64_t wide_misalignment = 1;
};

}  // namespace echo_kernel
