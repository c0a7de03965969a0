// SPDX-License-Identifier: MIT
// Reports every kind of parameter.
#include "echo.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include "export.hpp"

namespace {

using echo_kernel::outer;
using echo_kernel::report;
using echo_kernel::wide;
using switchyard::host::block;

void echo(const block& /*where*/, report* out, std::int8_t i8, std::uint8_t u8, std::int16_t i16,
          std::uint16_t u16, std::int32_t i32, std::uint32_t u32, std::int64_t i64, std::uint64_t u64,
          std::uint16_t f16, std::uint16_t bf16, float f32, double f64, const void* pointer,
          std::array<std::uint64_t, 2> null, outer structure) {
  *out = {i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64, pointer, null, structure, 0, 1};
}

// As a kernel that finds its own parameters: make_kernel would copy a misaligned struct to an aligned one.
void report_wide(const block& /*where*/, const void* const* parameters) {
  auto* out = *static_cast<report* const*>(parameters[0]);
  out->wide_misalignment = reinterpret_cast<std::uintptr_t>(parameters[1]) % alignof(wide);
  __builtin_memcpy(&out->wide_value, parameters[1], sizeof out->wide_value);
}
constexpr std::array<std::uint32_t, 2> wide_bytes{sizeof(report*), sizeof(wide)};

void take_map(const block& /*where*/, std::int32_t* out, std::array<std::byte, 128> /*map*/) {
  *out = 1;
}

}  // namespace

EXPORT_KERNEL(echo_all, echo);
EXPORT_KERNEL(take_tensor_map, take_map);
extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel echo_wide;
const switchyard::host::kernel echo_wide{1, 2, wide_bytes.data(), &report_wide};
