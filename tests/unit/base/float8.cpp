// SPDX-License-Identifier: MIT
// 8-bit floats: every value, and the edges between every two.
#include <cmath>
#include <cstdint>
#include <limits>

#include <switchyard/base/float8.hpp>

#include "catch.hpp"

using namespace switchyard;

static_assert(f8_e4m3_to_float(0x38) == 1.0F && f8_e4m3_to_float(0x01) == 0x1p-9F);
static_assert(f8_e4m3_to_float(0x7E) == 448.0F && f8_e4m3_to_float(0xFE) == -448.0F);
static_assert(f8_e4m3_from(1.0 / 3.0) == 0x2B && f8_e4m3_from(448.0) == 0x7E);

TEST_CASE("e4m3: every value and the edges between", "[float8]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t n = 0; n < 0x7EU; ++n) {
    const auto value = static_cast<double>(f8_e4m3_to_float(static_cast<std::uint8_t>(n)));
    const auto next = static_cast<double>(f8_e4m3_to_float(static_cast<std::uint8_t>(n + 1)));
    const double middle = value + (next - value) / 2;
    const std::uint32_t even = n % 2 == 0 ? n : n + 1;
    for (const std::uint32_t sign : {0U, 0x80U}) {
      const double side = sign == 0 ? 1.0 : -1.0;
      wrong += f8_e4m3_from(side * value) == (n | sign) ? 0U : 1U;
      wrong += f8_e4m3_from(side * middle) == (even | sign) ? 0U : 1U;
      wrong += f8_e4m3_from(side * std::nextafter(middle, 0.0)) == (n | sign) ? 0U : 1U;
      wrong += f8_e4m3_from(side * std::nextafter(middle, 1e300)) == ((n + 1) | sign) ? 0U : 1U;
      const auto back = static_cast<double>(f8_e4m3_to_float(static_cast<std::uint8_t>(n | sign)));
      wrong += back == side * value && std::signbit(back) == (sign != 0) ? 0U : 1U;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("e4m3: beyond the largest value, and NaN", "[float8]") {
  constexpr double endless = std::numeric_limits<double>::infinity();
  for (const double value : {449.0, 463.9, 464.0, 480.0, 1e300, endless}) {
    CHECK(f8_e4m3_from(value) == 0x7E);
    CHECK(f8_e4m3_from(-value) == 0xFE);
  }
  CHECK(f8_e4m3_from(5e-324) == 0);
  CHECK(f8_e4m3_from(-5e-324) == 0x80);
  CHECK((f8_e4m3_from(std::numeric_limits<double>::quiet_NaN()) & 0x7F) == 0x7F);
  CHECK(std::isnan(f8_e4m3_to_float(0x7F)));
  CHECK(std::isnan(f8_e4m3_to_float(0xFF)));
}
