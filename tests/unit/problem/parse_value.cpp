// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <limits>

#include <switchyard/problem/parse_value.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

TEST_CASE("axis values are read from names and from decimal numbers") {
  const auto axes = sample::description().axes;
  CHECK(parse_value(axes[0], "bf16") == 1);
  CHECK(parse_value(axes[0], "2") == 2);
  CHECK(parse_value(axes[2], "true") == 1);
  CHECK(parse_value(axes[2], "false") == 0);
  CHECK(parse_value(axes[5], "4096") == 4096);
  CHECK(parse_value(axes[5], "-1") == -1);
  CHECK(parse_value(axes[5], "9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_value(axes[5], "-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("text that is neither a name nor a number that fits has no value") {
  const auto axes = sample::description().axes;
  for (const char* text : {"", "-", "bf17", "12x", " 1", "1.0", "0x10", "9223372036854775808",
                           "-9223372036854775809", "+1", "--1"}) {
    INFO(text);
    CHECK_FALSE(parse_value(axes[5], text));
  }
  CHECK_FALSE(parse_value(axes[5], "bf16"));
}
