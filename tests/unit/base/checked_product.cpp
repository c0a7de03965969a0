// SPDX-License-Identifier: MIT
// Products that 64 bits do not hold are negative, whatever follows them.
#include <catch.hpp>
#include <cstdint>

#include <switchyard/base/checked_product.hpp>

using switchyard::detail::checked_product;
using switchyard::detail::too_large;

TEST_CASE("a product is exact, or marked as too large", "[base]") {
  constexpr std::int64_t large = std::int64_t{1} << 32;
  CHECK(checked_product(large, large / 4) == std::int64_t{1} << 62);
  CHECK(checked_product(large, large) == too_large);
  CHECK(checked_product(-large, large) == too_large);
  CHECK(checked_product(too_large, 1) == too_large);
  CHECK(checked_product(too_large, 3) == too_large);
  CHECK(checked_product(too_large, -1) == too_large);
  CHECK(checked_product(too_large, 0) == 0);
}
