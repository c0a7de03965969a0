// SPDX-License-Identifier: MIT
// The order of elements without moving them, against std::stable_sort().
#include <algorithm>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <environment.hpp>
#include <random>
#include <utility>
#include <vector>

#include <switchyard/base/stable_order.hpp>

using switchyard::detail::stable_order;

TEST_CASE("an order is the one of a stable sort", "[base]") {
  std::mt19937 random{switchyard::test::fresh_seed()};
  const auto less = [](const std::pair<int, std::uint32_t>& a, const std::pair<int, std::uint32_t>& b) {
    return a.first < b.first;
  };
  for (std::uint32_t count = 0; count < 300; count = count * 3 / 2 + 1) {
    std::vector<std::pair<int, std::uint32_t>> elements;
    for (std::uint32_t i = 0; i < count; ++i) elements.emplace_back(static_cast<int>(random() % 7), i);
    auto sorted = elements;
    std::stable_sort(sorted.begin(), sorted.end(), less);
    const std::vector<std::uint32_t> order = stable_order(elements, less);
    REQUIRE(order.size() == sorted.size());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == sorted[i].second);
  }
}
