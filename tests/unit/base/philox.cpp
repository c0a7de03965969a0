// SPDX-License-Identifier: MIT
// Philox against the known answers that its authors publish.
#include <cstdint>

#include <switchyard/base/philox.hpp>

#include "catch.hpp"

using namespace switchyard;

static_assert(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
              philox_counter{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U});
static_assert(philox4x32_10({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) ==
              philox_counter{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU});
static_assert(philox4x32_10({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U},
                            {0xA4093822U, 0x299F31D0U}) ==
              philox_counter{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U});

TEST_CASE("philox: words of dropout sit where the operator says", "[philox]") {
  const std::uint64_t seed = 0x1122334455667788U;
  const std::uint64_t offset = 0x99AABBCCDDEEFF00U;
  CHECK(dropout_words(seed, offset, 7, 5, 3) ==
        philox4x32_10({3, 5, 7, 0xDDEEFF00U}, {0x55667788U, 0x11223344U ^ 0x99AABBCCU}));
}

TEST_CASE("philox: the threshold drops the share that is asked for", "[philox]") {
  CHECK(dropout_threshold(0.0F) == 0U);
  CHECK(dropout_threshold(0.5F) == 0x80000000U);
  CHECK(dropout_threshold(0.25F) == 0x40000000U);
  std::uint32_t dropped = 0;
  constexpr std::uint32_t quads = 25000;
  for (std::uint32_t quad = 0; quad < quads; ++quad) {
    for (const std::uint32_t word : dropout_words(1, 2, 3, 4, quad)) {
      dropped += word < dropout_threshold(0.3F) ? 1U : 0U;
    }
  }
  // 0.3 within five standard deviations of 100,000 draws.
  CHECK(dropped > 4 * quads * 0.3 - 725);
  CHECK(dropped < 4 * quads * 0.3 + 725);
}
