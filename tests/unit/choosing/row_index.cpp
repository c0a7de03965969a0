// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <catch.hpp>
#include <chrono>
#include <cstddef>
#include <random>
#include <tuple>
#include <vector>

#include <switchyard/choosing/build_row_index.hpp>
#include <switchyard/choosing/row_index.hpp>

#include "environment.hpp"

using namespace switchyard;

namespace {

struct cloud {
  std::vector<float> points;
  std::size_t dimensions;
};

cloud random_cloud(std::size_t count, std::size_t dimensions, unsigned seed, bool on_grid) {
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> real{0, 16};
  cloud out{std::vector<float>(count * dimensions), dimensions};
  for (float& value : out.points) value = on_grid ? static_cast<float>(random() % 5) : real(random);
  return out;
}

std::vector<neighbour> by_brute_force(const cloud& all, std::span<const float> at, std::size_t wanted) {
  std::vector<neighbour> out;
  for (std::size_t row = 0; row * all.dimensions < all.points.size(); ++row) {
    float squared = 0;
    for (std::size_t i = 0; i < all.dimensions; ++i) {
      const float difference = all.points[row * all.dimensions + i] - at[i];
      squared += difference * difference;
    }
    out.push_back({squared, static_cast<std::uint32_t>(row)});
  }
  const auto last = out.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, out.size()));
  std::partial_sort(out.begin(), last, out.end(), [](const neighbour& a, const neighbour& b) {
    return std::tie(a.squared_distance, a.row) < std::tie(b.squared_distance, b.row);
  });
  out.resize(std::min(out.size(), wanted));
  return out;
}

std::vector<float> random_point(std::size_t dimensions, std::mt19937& random) {
  std::uniform_real_distribution<float> real{-2, 18};
  std::vector<float> out(dimensions);
  for (float& value : out) value = real(random);
  return out;
}

}  // namespace

TEST_CASE("the rows found are those that a search of all rows finds, in its order") {
  std::mt19937 random{switchyard::test::seed_or(7)};
  for (const std::size_t count : {1U, 2U, 12U, 13U, 26U, 100U, 200U}) {
    for (const std::size_t dimensions : {1U, 2U, 4U, 16U}) {
      const cloud all = random_cloud(count, dimensions, static_cast<unsigned>(count + dimensions), false);
      const row_index index = row_index_builder::build(all.points, dimensions);
      REQUIRE(index.size() == count);
      for (int i = 0; i < 50; ++i) {
        const auto at = random_point(dimensions, random);
        const std::uint32_t wanted = 1 + static_cast<std::uint32_t>(i) % 32;
        neighbour_list found;
        index.nearest(at, wanted, found);
        const auto expected = by_brute_force(all, at, wanted);
        INFO(count << " rows of " << dimensions << " dimensions, " << wanted << " wanted");
        REQUIRE(found.count == expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k) {
          REQUIRE(found.entries[k].squared_distance == expected[k].squared_distance);
          REQUIRE(found.entries[k].row == expected[k].row);
        }
      }
    }
  }
}

TEST_CASE("of rows on a grid, many equally far, the table's first ones are found") {
  std::mt19937 random{switchyard::test::seed_or(8)};
  for (unsigned round = 0; round < 20; ++round) {
    const std::size_t dimensions = 1 + round % 3;
    const cloud all = random_cloud(200, dimensions, 5 + round, true);
    const row_index index = row_index_builder::build(all.points, dimensions);
    for (int i = 0; i < 200; ++i) {
      std::vector<float> at(dimensions);
      for (float& value : at) value = static_cast<float>(random() % 11) / 2;
      const auto wanted = static_cast<std::uint32_t>(1 + i % 32);
      neighbour_list found;
      index.nearest(at, wanted, found);
      const auto expected = by_brute_force(all, at, wanted);
      REQUIRE(found.count == wanted);
      for (std::size_t k = 0; k < wanted; ++k) {
        REQUIRE(found.entries[k].squared_distance == expected[k].squared_distance);
        REQUIRE(found.entries[k].row == expected[k].row);
      }
    }
  }
}

// Random points in four dimensions are the hard case: rows of a table lie on a grid. What is missed is the
// price of a search whose time does not grow with the table.
TEST_CASE("in a large index nearly all of the nearest rows are found") {
  std::mt19937 random{switchyard::test::seed_or(9)};
  const cloud all = random_cloud(50'000, 4, 3, false);
  const row_index index = row_index_builder::build(all.points, 4);
  std::size_t nearest_found = 0;
  std::size_t found_of_eight = 0;
  constexpr std::size_t queries = 300;
  for (std::size_t i = 0; i < queries; ++i) {
    std::uniform_real_distribution<float> real{0, 16};
    const std::vector<float> at{real(random), real(random), real(random), real(random)};
    neighbour_list found;
    index.nearest(at, 8, found);
    REQUIRE(found.count == 8);
    const auto expected = by_brute_force(all, at, 8);
    if (found.entries[0].row == expected[0].row) ++nearest_found;
    for (const neighbour& near : expected) {
      const auto is_same = [&near](const neighbour& other) { return other.row == near.row; };
      if (std::any_of(found.entries.begin(), found.entries.begin() + 8, is_same)) ++found_of_eight;
    }
  }
  CHECK(nearest_found >= queries * 98 / 100);
  CHECK(found_of_eight >= queries * 8 * 95 / 100);
}

TEST_CASE("an index of identical rows, and one of none, answer") {
  const std::vector<float> same(200, 3.0F);  // a hundred rows of two
  const row_index index = row_index_builder::build(same, 2);
  neighbour_list found;
  index.nearest(std::vector<float>{0, 0}, 5, found);
  REQUIRE(found.count == 5);
  CHECK(found.entries[4].squared_distance == 18);
  row_index_builder::build({}, 2).nearest(std::vector<float>{0, 0}, 5, found);
  CHECK(found.count == 0);
  index.nearest(std::vector<float>{0, 0}, 0, found);
  CHECK(found.count == 0);
  index.nearest(std::vector<float>{0, 0}, 1000, found);
  CHECK(found.count == max_neighbours);
}

TEST_CASE("of equally near rows in two leaves the table's first ones are found") {
  // A leaf of 23 rows on either side of 1.9. Seen from 0, the left one has 1.5, 2 and 2; the right one
  // has 1.9, and at 2 the row that stands first in the table.
  std::vector<float> points{2.0F, -2.0F, -2.0F, -1.5F, 1.9F};
  for (int i = 0; i < 20; ++i) points.push_back(-100.0F - static_cast<float>(i));
  for (int i = 0; i < 21; ++i) points.push_back(100.0F + static_cast<float>(i));
  const row_index index = row_index_builder::build(points, 1);
  const std::array<float, 1> origin{0};
  neighbour_list found;
  index.nearest(origin, 3, found);
  REQUIRE(found.count == 3);
  CHECK(found.entries[0].row == 3);
  CHECK(found.entries[1].row == 4);
  CHECK(found.entries[2].row == 0);
}

#if defined(__SSE2__)
TEST_CASE("rows keep their order where an engine has denormal numbers count as zero") {
  const std::vector<float> same(60, 3.0F);  // thirty rows of two, all at distance 0
  const row_index index = row_index_builder::build(same, 2);
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040U);
  neighbour_list few;
  index.nearest(std::vector<float>{3, 3}, 8, few);
  neighbour_list many;
  index.nearest(std::vector<float>{3, 3}, 20, many);
  __builtin_ia32_ldmxcsr(before);
  REQUIRE(few.count == 8);
  REQUIRE(many.count == 20);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(few.entries[i].row == i);
  for (std::uint32_t i = 0; i < 20; ++i) CHECK(many.entries[i].row == i);
}
#endif

TEST_CASE("the time of a search hardly grows with the rows") {
  const auto time_of = [](unsigned count) {
    const cloud all = random_cloud(count, 4, 1, false);
    const row_index index = row_index_builder::build(all.points, 4);
    std::mt19937 random{switchyard::test::seed_or(4)};
    std::vector<std::vector<float>> points;
    for (int i = 0; i < 500; ++i) points.push_back(random_point(4, random));
    auto best = std::chrono::nanoseconds::max();
    for (int repeat = 0; repeat < 9; ++repeat) {
      const auto begin = std::chrono::steady_clock::now();
      neighbour_list found;
      for (const auto& at : points) index.nearest(at, 8, found);
      best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    return best.count();
  };
  const auto small = time_of(1'000);
  const auto large = time_of(200'000);
  INFO("1,000 rows: " << small << " ns; 200,000 rows: " << large << " ns for 500 searches");
  // A search of all rows would take 200 times as long. The bound leaves room for caches and busy machines.
  CHECK(large < 10 * small);
}
