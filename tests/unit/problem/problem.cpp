// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <cstdint>
#include <set>

#include <switchyard/problem/problem.hpp>

#include "../sample_operator.hpp"
#include "environment.hpp"

using namespace switchyard;

TEST_CASE("neighbouring problems have different hashes, in their low and their high bits") {
  std::set<std::uint64_t> all;
  std::set<std::uint64_t> low;
  std::set<std::uint64_t> high;
  for (std::int64_t a = 0; a < 64; ++a) {
    for (std::int64_t b = 0; b < 64; ++b) {
      const std::array<std::int64_t, 3> problem{a, b, 128};
      const std::uint64_t value = hash(problem_view{problem});
      all.insert(value);
      low.insert(value & 0xffffU);
      high.insert(value >> 48U);
    }
  }
  CHECK(all.size() == 4096);
  // 4096 balls into 65536 bins fill 3969 of them on average.
  CHECK(low.size() > 3850);
  CHECK(high.size() > 3850);
}

TEST_CASE("a problem is written as files spell it") {
  const auto problem = sample::problem(
      {{"dtype", 1}, {"layout", 2}, {"masked", 1}, {"width", 128}, {"alignment", 16}, {"rows", 4}});
  CHECK(format_problem(sample::description(), problem) ==
        "dtype=bf16 layout=paged masked=true width=128 alignment=16 rows=4 columns=0");
}

TEST_CASE("a value without a name is written as its number") {
  const axis_description& dtype_axis = sample::description().axes[0];
  CHECK(format_value(dtype_axis, 0) == "f16");
  CHECK(format_value(dtype_axis, 9) == "9");
  CHECK(format_value(dtype_axis, -1) == "-1");
}

TEST_CASE("axes are found by name") {
  CHECK(find_axis(sample::description(), "columns") == 6);
  CHECK(find_axis(sample::description(), "column") == 7);
}
