// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/problem/problem_key.hpp>

using namespace switchyard;

namespace {

/// An operator with so many axes.
template <std::size_t Count>
struct numbers {
  static constexpr std::string_view name = "numbers";
  struct arguments {
    std::array<std::int64_t, Count> values{};
  };
  template <std::size_t Index>
  static constexpr auto axis() {
    return size_axis("axis", [](const arguments& a) noexcept { return a.values[Index]; });
  }
  static constexpr auto fields = switchyard::fields<>;
  static constexpr auto axes = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return switchyard::axes(axis<Index>()...);
  }
  (std::make_index_sequence<Count>{});
};

template <std::size_t Count>
auto key_of(const std::array<std::int64_t, Count>& problem) {
  return make_key<numbers<Count>>({problem});
}

/// A cache whose plans the test owns.
class cache_of_problems {
 public:
  explicit cache_of_problems(std::size_t capacity) : cache_{capacity} {}

  template <std::size_t Count>
  plan* insert(const std::array<std::int64_t, Count>& problem, std::uint64_t conditions = 0) {
    auto fresh = std::make_unique<plan>();
    fresh->problem.assign(problem, conditions);
    const auto key = key_of(problem);
    for (std::size_t part = 0; part < key.size(); ++part) fresh->key[part] = key[part];
    fresh->hash = hash(key);
    all_.push_back(std::move(fresh));
    displaced_ = cache_.insert(all_.back().get());
    return all_.back().get();
  }
  template <std::size_t Count>
  [[nodiscard]] plan* find(const std::array<std::int64_t, Count>& problem) const {
    const auto key = key_of(problem);
    plan* const found = cache_.find(hash(key), key);
    CHECK(cache_.find(hash(key), problem, 0) == found);
    return found;
  }
  [[nodiscard]] plan_cache& cache() noexcept { return cache_; }
  [[nodiscard]] plan* displaced() const noexcept { return displaced_; }

 private:
  plan_cache cache_;
  std::vector<std::unique_ptr<plan>> all_;
  plan* displaced_ = nullptr;
};

}  // namespace

TEST_CASE("every axis of a problem is compared, whatever their number and their hash") {
  const auto check = [](auto problem) {
    cache_of_problems all{16};
    for (std::size_t axis = 0; axis < problem.size(); ++axis) problem[axis] = static_cast<std::int64_t>(axis);
    plan* const known = all.insert(problem);
    CHECK(all.find(problem) == known);
    for (std::size_t axis = 0; axis < problem.size(); ++axis) {
      auto other = problem;
      other[axis] += 1;
      CHECK(all.find(other) == nullptr);
      CHECK(all.cache().find(known->hash, other, 0) == nullptr);
      // With the other's hash made the same only the axes can tell.
      CHECK(all.cache().find(known->hash, key_of(other)) == nullptr);
    }
  };
  check(std::array<std::int64_t, 1>{});
  check(std::array<std::int64_t, 2>{});
  check(std::array<std::int64_t, 3>{});
  check(std::array<std::int64_t, 5>{});
  check(std::array<std::int64_t, 7>{});
  check(std::array<std::int64_t, 8>{});
  check(std::array<std::int64_t, 21>{});
}

TEST_CASE("as many problems as the capacity says are kept, none is made twice") {
  for (const std::size_t capacity :
       {std::size_t{1}, std::size_t{3}, std::size_t{100}, default_plan_capacity}) {
    cache_of_problems all{capacity};
    const auto problem_of = [](std::size_t i) {
      return std::array<std::int64_t, 3>{1, static_cast<std::int64_t>(i), 128};
    };
    for (std::size_t i = 0; i < capacity; ++i) {
      all.insert(problem_of(i));
      REQUIRE(all.displaced() == nullptr);
    }
    for (std::size_t i = 0; i < capacity; ++i) REQUIRE(all.find(problem_of(i)) != nullptr);
    // One more displaces exactly one.
    plan* const last = all.insert(problem_of(capacity));
    REQUIRE(all.displaced() != nullptr);
    CHECK(all.displaced() != last);
    CHECK(all.find(problem_of(capacity)) == last);
    std::size_t kept = 0;
    for (std::size_t i = 0; i <= capacity; ++i) kept += all.find(problem_of(i)) != nullptr ? 1U : 0U;
    CHECK(kept == capacity);
    std::size_t visited = 0;
    all.cache().for_each([&](const plan&) { ++visited; });
    CHECK(visited == capacity);
  }
}

TEST_CASE("a cycle that is longer than the capacity still finds some plans") {
  constexpr std::int64_t capacity = 256;
  cache_of_problems all{capacity};
  int found = 0;
  for (int round = 0; round < 8; ++round) {
    for (std::int64_t i = 0; i < capacity * 5 / 4; ++i) {
      const std::array<std::int64_t, 2> problem{i, 1};
      if (all.find(problem) != nullptr) {
        ++found;
      } else {
        all.insert(problem);
      }
    }
  }
  CHECK(found > 7 * capacity / 4);
}

TEST_CASE("problems that come from now on take the place of those that come no more") {
  constexpr std::int64_t capacity = 256;
  cache_of_problems all{capacity};
  for (std::int64_t i = 0; i < capacity; ++i) all.insert(std::array<std::int64_t, 2>{i, 1});
  std::int64_t found = 0;
  for (int round = 0; round < 20; ++round) {
    found = 0;
    for (std::int64_t i = 0; i < capacity / 4; ++i) {
      const std::array<std::int64_t, 2> problem{i, 2};
      if (all.find(problem) != nullptr) {
        ++found;
      } else {
        all.insert(problem);
      }
    }
  }
  CHECK(found == capacity / 4);
}

TEST_CASE("a cache of no plans holds one") {
  cache_of_problems all{0};
  const std::array<std::int64_t, 2> problem{5, 6};
  plan* const first = all.insert(problem);
  CHECK(all.find(problem) == first);
  all.insert(std::array<std::int64_t, 2>{5, 7});
  CHECK(all.displaced() == first);
  CHECK(all.find(problem) == nullptr);
}

TEST_CASE("plans of one key are told apart by conditions on arguments") {
  cache_of_problems all{8};
  const std::array<std::int64_t, 2> problem{5, 6};
  std::array<plan*, 4> known{};
  for (std::uint64_t conditions = 0; conditions < known.size(); ++conditions) {
    known[conditions] = all.insert(problem, conditions);
    (void)all.insert(std::array<std::int64_t, 2>{7, static_cast<std::int64_t>(conditions)}, conditions);
  }
  const auto key = key_of(problem);
  plan* const first = all.cache().find(hash(key), key);
  REQUIRE(first != nullptr);
  for (std::uint64_t conditions = 0; conditions < known.size(); ++conditions) {
    CHECK(plan_cache::find_alike(*first, conditions) == known[conditions]);
    CHECK(all.cache().find(first->hash, problem, conditions) == known[conditions]);
  }
  CHECK(plan_cache::find_alike(*first, 4) == nullptr);
  CHECK(all.cache().find(first->hash, problem, 4) == nullptr);
}

TEST_CASE("a plan that is replaced is found no more, and its bucket's others are") {
  cache_of_problems all{1};  // two buckets
  plan_cache& cache = all.cache();
  const std::array<std::int64_t, 2> problem{5, 6};
  plan* const old = all.insert(problem);
  plan fresh;
  fresh.problem.assign(problem, 0);
  fresh.key = old->key;
  fresh.hash = old->hash;
  cache.replace(old, &fresh);
  CHECK(all.find(problem) == &fresh);
  int visited = 0;
  cache.for_each([&](const plan& kept) {
    ++visited;
    CHECK(&kept == &fresh);
  });
  CHECK(visited == 1);
}
