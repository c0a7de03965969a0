// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include <switchyard/choosing/type_signatures.hpp>

#include "../../environment.hpp"
#include "../sample_operator.hpp"

using namespace switchyard;

TEST_CASE("problems are of one kind where no type tells them apart") {
  type_signatures kinds;
  CHECK(kinds.of(sample::problem({{"width", 1}})) == kinds.of(sample::problem({{"width", 2}})));
  kinds.add({{0, 2}, {3, 64}});
  kinds.add({{3, 128}});
  kinds.add({});
  const auto kind = [&](std::int64_t dtype, std::int64_t width, std::int64_t rows) {
    return kinds.of(sample::problem({{"dtype", dtype}, {"width", width}, {"rows", rows}}));
  };
  CHECK(kind(2, 64, 1) == kind(2, 64, 9));  // sizes tell nothing apart
  CHECK_FALSE(kind(2, 64, 1) == kind(2, 128, 1));
  CHECK_FALSE(kind(2, 64, 1) == kind(1, 64, 1));
  CHECK(kind(1, 7, 1) == kind(0, 9, 1));  // no type names any of these values
  CHECK_FALSE(kind(1, 7, 1) == kind(1, 64, 1));
}

TEST_CASE("a type holds for a kind exactly where it holds for the problems of it") {
  const std::uint32_t seed = switchyard::test::fresh_seed();
  INFO("SWITCHYARD_TEST_SEED=" << seed);
  std::mt19937 random{seed};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<axis_value>> types;
    type_signatures kinds;
    for (int i = 0; i < 8; ++i) {
      std::vector<axis_value>& type = types.emplace_back();
      for (std::uint32_t axis = 0; axis < 5; ++axis) {
        if (random() % 3 == 0) type.push_back({axis, static_cast<std::int64_t>(random() % 6) - 2});
      }
      kinds.add(type);
    }
    for (int i = 0; i < 50; ++i) {
      std::vector<std::int64_t> problem(7);
      for (std::int64_t& value : problem) value = static_cast<std::int64_t>(random() % 8) - 3;
      const type_signature kind = kinds.of(problem);
      for (const std::vector<axis_value>& type : types) {
        bool holds = true;
        for (const axis_value& wanted : type) holds = holds && problem[wanted.axis] == wanted.value;
        REQUIRE(kinds.holds(type, kind) == holds);
      }
    }
  }
}
