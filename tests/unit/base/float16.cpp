// SPDX-License-Identifier: MIT
// 16-bit floats: every value, and the edges between every two.
#include <cmath>
#include <cstdint>
#include <limits>

#include <switchyard/base/float16.hpp>

#include "catch.hpp"

using namespace switchyard;

static_assert(f16_to_float(0x3C00) == 1.0F && f16_to_float(0x0001) == 0x1p-24F &&
              f16_to_float(0x7BFF) == 65504.0F);
static_assert(bf16_to_float(0x3F80) == 1.0F && bf16_to_float(0x0001) == 0x1p-133F);
static_assert(f16_from(1.0 / 3.0) == 0x3555 && bf16_from(1.0 / 3.0) == 0x3EAB);

namespace {

template <class From, class To>
void check_all(From from, To to, std::uint16_t infinity) {
  std::uint32_t wrong = 0;
  for (std::uint32_t n = 0; n < infinity; ++n) {
    const auto bits = static_cast<std::uint16_t>(n);
    const auto next_bits = static_cast<std::uint16_t>(n + 1);
    const auto value = static_cast<double>(to(bits));
    // The neighbour of the largest value is where infinity would be, were it a number.
    const double next = next_bits == infinity
                            ? value + (value - static_cast<double>(to(static_cast<std::uint16_t>(n - 1))))
                            : static_cast<double>(to(next_bits));
    const double middle = value + (next - value) / 2;
    const auto even = static_cast<std::uint16_t>(n % 2 == 0 ? n : n + 1);
    for (const double sign : {1.0, -1.0}) {
      const auto sign_bit = static_cast<std::uint16_t>(sign < 0 ? 0x8000 : 0);
      const auto with_sign = [&](std::uint16_t magnitude) {
        return static_cast<std::uint16_t>(magnitude | sign_bit);
      };
      wrong += from(sign * value) == with_sign(bits) ? 0U : 1U;
      wrong += from(sign * middle) == with_sign(even) ? 0U : 1U;
      wrong += from(sign * std::nextafter(middle, 0.0)) == with_sign(bits) ? 0U : 1U;
      wrong += from(sign * std::nextafter(middle, 1e300)) == with_sign(next_bits) ? 0U : 1U;
      wrong += static_cast<double>(to(with_sign(bits))) == sign * value ? 0U : 1U;
    }
  }
  CHECK(wrong == 0);
  for (std::uint32_t n = infinity + 1U; n < 0x8000U; ++n) {
    const auto nan = static_cast<std::uint16_t>(n);
    wrong += std::isnan(to(nan)) && std::isnan(to(from(static_cast<double>(to(nan))))) ? 0U : 1U;
  }
  CHECK(wrong == 0);
  constexpr double endless = std::numeric_limits<double>::infinity();
  CHECK(from(endless) == infinity);
  CHECK(from(-endless) == (infinity | 0x8000));
  CHECK(from(1e300) == infinity);
  CHECK(from(5e-324) == 0);
  CHECK(from(-5e-324) == 0x8000);
  CHECK(std::isinf(to(infinity)));
  CHECK(std::isnan(to(from(std::numeric_limits<double>::quiet_NaN()))));
}

}  // namespace

TEST_CASE("float16: binary16", "[float16]") {
  check_all([](double value) { return f16_from(value); },
            [](std::uint16_t bits) { return f16_to_float(bits); }, 0x7C00);
}
TEST_CASE("float16: bfloat16", "[float16]") {
  check_all([](double value) { return bf16_from(value); },
            [](std::uint16_t bits) { return bf16_to_float(bits); }, 0x7F80);
}
