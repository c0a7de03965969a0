// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <cstdint>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/row_slots.hpp>

using namespace switchyard;

TEST_CASE("rows are found by their coordinates, and added once") {
  row_slots slots;
  std::vector<std::int64_t> rows;
  CHECK(slots.find(std::array<std::int64_t, 2>{1, 2}, rows.data()) == no_index);
  std::uint32_t count = 0;
  const auto add = [&](std::int64_t a, std::int64_t b) {
    const std::array<std::int64_t, 2> at{a, b};
    if (!slots.insert(at, count, rows.data())) return false;
    rows.insert(rows.end(), at.begin(), at.end());
    ++count;
    return true;
  };
  for (std::int64_t i = 0; i < 1000; ++i) REQUIRE(add(i % 40, i / 40));
  for (std::int64_t i = 0; i < 1000; ++i) {
    REQUIRE_FALSE(add(i % 40, i / 40));
    REQUIRE(slots.find(std::array{i % 40, i / 40}, rows.data()) == i);
  }
  CHECK(slots.find(std::array<std::int64_t, 2>{40, 0}, rows.data()) == no_index);
}

TEST_CASE("a group without axes has one row") {
  row_slots slots;
  CHECK(slots.find({}, nullptr) == no_index);
  CHECK(slots.insert({}, 0, nullptr));
  CHECK(slots.find({}, nullptr) == 0);
  CHECK_FALSE(slots.insert({}, 1, nullptr));
}
