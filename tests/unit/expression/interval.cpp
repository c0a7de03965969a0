// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/interval.hpp>

#include "environment.hpp"
#include "random_tree.hpp"
#include "sample_names.hpp"

using namespace switchyard;
using namespace sample_names;

namespace {

std::string bounds_of(const std::string& text, const std::vector<interval>& axes) {
  const interval out = bound(expression::parse(text, names()), axes, attribute_values_here);
  return out.is_empty() ? "none" : std::to_string(out.low) + " to " + std::to_string(out.high);
}

/// A range within which all values can be tried.
interval random_range(std::mt19937_64& random) {
  const auto length = static_cast<std::int64_t>(random() % 4);
  switch (random() % 5) {
    case 0: {
      const auto low = static_cast<std::int64_t>(random() % 7) - 5;
      return {low, low + length};
    }
    case 1:
      return {highest - length, highest};
    case 2:
      return {lowest, lowest + length};
    default: {
      const auto low = static_cast<std::int64_t>(random() % 5'000);
      return {low, low + length};
    }
  }
}

}  // namespace

TEST_CASE("bounds of an expression over ranges of axes") {
  const std::vector<interval> axes{{1, 64}, {0, 100}, {-3, 5}, {7, 7}, {0, 0}, {-8, -2}};
  CHECK(bounds_of("4 * a * b", axes) == "0 to 25600");
  CHECK(bounds_of("ceil_div(a, 8) * warp_size", axes) == "32 to 256");
  CHECK(bounds_of("round_up(a, 16)", axes) == "16 to 64");
  CHECK(bounds_of("min(a, 8) - max(c, 2)", axes) == "-4 to 6");
  CHECK(bounds_of("c * f", axes) == "-40 to 24");
  CHECK(bounds_of("b % 8", axes) == "0 to 7");
  CHECK(bounds_of("c % 4", axes) == "-3 to 3");
  CHECK(bounds_of("100 / a", axes) == "1 to 100");
  CHECK(bounds_of("100 / c", axes) == "-100 to 100");  // what divides by zero counts for nothing
  CHECK(bounds_of("100 / e", axes) == "none");
  CHECK(bounds_of("a <= 16 ? 1000 * a : 1", axes) == "1 to 64000");
  CHECK(bounds_of("a <= 64 ? 3 : 100 / e", axes) == "3 to 3");
  CHECK(bounds_of("a > 64 ? 3 : d", axes) == "7 to 7");
  CHECK(bounds_of("a && c", axes) == "0 to 1");
  CHECK(bounds_of("f && d", axes) == "1 to 1");
  CHECK(bounds_of("1 << c", axes) == "1 to 32");
  CHECK(bounds_of("next_pow2(b)", axes) == "1 to 128");
  CHECK(bounds_of("sqrt(b)", axes) == "0 to 10");
  CHECK(bounds_of("sqrt(c)", axes) == "0 to 2");  // what has no root counts for nothing
  CHECK(bounds_of("sqrt(f)", axes) == "none");
  CHECK(bounds_of("-f", axes) == "2 to 8");
  CHECK(bounds_of("stride", axes) == std::to_string(lowest) + " to " + std::to_string(highest));
}

TEST_CASE("no value of a random expression lies outside its bounds") {
  const std::uint32_t seed = switchyard::test::seed_or(1042);
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  const scope known = names();
  int tried = 0;
  int tight = 0;
  for (int round = 0; round < 3'000; ++round) {
    const random_trees::tree made = random_trees::random_tree(random, 4);
    expression parsed;
    try {
      parsed = expression::parse(made.text(), known);
    } catch (const expression_error&) {
      continue;  // its constants alone are a fault
    }
    std::vector<interval> axes;
    for (std::size_t i = 0; i < axis_values.size(); ++i) axes.push_back(random_range(random));
    const interval found = bound(parsed, axes, attribute_values_here);
    interval exact;
    std::vector<std::int64_t> at;
    for (const interval& axis : axes) at.push_back(axis.low);
    for (bool more = true; more;) {
      const integer_result here = parsed.evaluate({at, attribute_values_here, {}, nullptr});
      if (here.why == fault::none) {
        ++tried;
        INFO(made.text() << " is " << here.value);
        REQUIRE(found.contains(here.value));
        if (exact.is_empty()) exact = {here.value, here.value};
        exact.low = std::min(exact.low, here.value);
        exact.high = std::max(exact.high, here.value);
      }
      more = false;
      for (std::size_t i = 0; i < at.size() && !more; ++i) {
        more = at[i] < axes[i].high;
        at[i] = more ? at[i] + 1 : axes[i].low;
      }
    }
    tight += found.low == exact.low && found.high == exact.high ? 1 : 0;
  }
  CHECK(tried > 10'000);
  CHECK(tight > 1'000);
}
