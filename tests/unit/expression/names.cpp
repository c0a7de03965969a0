// SPDX-License-Identifier: MIT
#include <catch.hpp>

#include <switchyard/expression/names.hpp>

#include "sample_names.hpp"

using namespace switchyard;

TEST_CASE("later names hide earlier ones, and truncate forgets them") {
  scope some = sample_names::names();
  const std::size_t before = some.size();
  some.add_constant("a", 77);
  CHECK(expression::parse("a", some).evaluate(sample_names::values()).value == 77);
  some.truncate(before);
  CHECK(expression::parse("a", some).evaluate(sample_names::values()).value == 3);
}

TEST_CASE("an enumerator with two values is ambiguous, and with one is not") {
  scope some;
  some.add_enumerator("dense", 0);
  some.add_enumerator("dense", 0);
  REQUIRE(some.find("dense") != nullptr);
  CHECK_FALSE(some.find("dense")->ambiguous);
  some.add_enumerator("dense", 1);
  CHECK(some.find("dense")->ambiguous);
  CHECK(some.find("sparse") == nullptr);
  CHECK(some.names() == std::vector<std::string_view>{"dense"});
}
