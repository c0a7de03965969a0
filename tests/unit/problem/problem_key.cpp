// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include <switchyard/problem/problem_key.hpp>

#include "../../environment.hpp"
#include "../sample_operator.hpp"

using namespace switchyard;

namespace {

sample::scale::arguments key_sample(std::mt19937_64& random) {
  alignas(64) static std::array<std::byte, 64> memory{};
  const auto pick = [&random](auto... values) {
    const std::array<std::int64_t, sizeof...(values)> all{static_cast<std::int64_t>(values)...};
    return all[random() % all.size()];
  };
  sample::scale::arguments out;
  out.x = random() % 3 == 0 ? nullptr : memory.data() + random() % 17;
  out.y = memory.data() + random() % 17;
  out.rows = pick(0, 1, 2, 3, 4096, std::int64_t{1} << 32, -1);
  out.columns = pick(0, 1, 2, 3, 4096, std::int64_t{1} << 32, -1);
  out.width = pick(64, 128, 256);
  out.dtype = static_cast<dtype>(pick(0, 1, 2));
  out.layout = static_cast<sample::layout>(pick(0, 1, 2));
  out.masked = random() % 2 == 0;
  return out;
}

/// How many problems share each bucket of a table twice as large.
template <class Hash>
std::size_t longest_chain(std::size_t buckets, const std::vector<std::vector<std::int64_t>>& problems,
                          const Hash& hash_of) {
  unsigned bits = 0;
  while ((std::size_t{1} << bits) < buckets) ++bits;
  std::map<std::uint64_t, std::size_t> chains;
  std::size_t longest = 0;
  for (const auto& problem : problems) longest = std::max(longest, ++chains[hash_of(problem) >> (64 - bits)]);
  return longest;
}

/// Flags of every form: a member, a member function, an expression.
struct flagged {
  static constexpr std::string_view name = "flagged";
  struct arguments {
    std::int64_t n = 0;
    bool first = false;
    bool even = false;
    [[nodiscard]] bool is_even() const noexcept { return even; }
    [[nodiscard]] std::int64_t twice() const noexcept { return 2 * n; }
  };
  static constexpr auto fields = switchyard::fields<&arguments::n, &arguments::first, &arguments::even>;
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::first>(), switchyard::type_axis<&arguments::is_even>(),
      switchyard::type_axis<&arguments::twice>(),
      switchyard::type_axis("large", [](const arguments& a) noexcept { return a.n > 2; }),
      switchyard::size_axis<&arguments::n>());
};

}  // namespace

TEST_CASE("flags that member functions compute keep their place in a key") {
  for (int i = 0; i < 16; ++i) {
    const flagged::arguments call{.n = i / 4 + 1, .first = i % 2 != 0, .even = i % 4 > 1};
    const auto key = make_key<flagged>(call);
    const erased_key erased = make_key(describe<flagged>(), make_problem<flagged>(call));
    INFO(i);
    CHECK(__builtin_memcmp(erased.words.data(), key.data(), sizeof key) == 0);
  }
}

TEST_CASE("keys are equal exactly where problems are, and erased ones are the same") {
  const auto seed = switchyard::test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  std::vector<sample::scale::arguments> calls;
  for (int i = 0; i < 300; ++i) calls.push_back(key_sample(random));
  for (const auto& a : calls) {
    const auto problem = make_problem<sample::scale>(a);
    const auto key = make_key<sample::scale>(a);
    const erased_key erased = make_key(sample::description(), problem);
    REQUIRE(erased.parts == key.size());
    CHECK(__builtin_memcmp(erased.words.data(), key.data(), sizeof key) == 0);
    CHECK(hash(erased) == hash(key));
    for (const auto& b : calls) {
      const auto other = make_key<sample::scale>(b);
      REQUIRE((__builtin_memcmp(key.data(), other.data(), sizeof key) == 0) ==
              (problem == make_problem<sample::scale>(b)));
    }
  }
}

TEST_CASE("an operator's flags take one word") {
  CHECK(detail::key_words<sample::scale> == 7);  // six numbers, and `masked`
  CHECK(problem_key<sample::scale>{}.size() == 4);
}

TEST_CASE("chains stay short for the problems that engines make") {
  const auto hash_of = [](const std::vector<std::int64_t>& problem) {
    return hash(make_key(sample::description(), problem));
  };
  const auto chain = [&](const auto& draw) {
    std::vector<std::vector<std::int64_t>> problems;
    for (std::int64_t i = 0; i < 4096; ++i) problems.push_back(draw(i));
    return longest_chain(8192, problems, hash_of);
  };
  // As for random numbers, whose longest chain is 5 or 6.
  constexpr std::size_t most = 7;
  CHECK(chain([](std::int64_t i) { return sample::problem({{"rows", i}}); }) <= most);
  CHECK(chain([](std::int64_t i) {
          return sample::problem({{"rows", i * 4096}, {"columns", 128}});
        }) <= most);
  CHECK(chain([](std::int64_t i) {
          return sample::problem({{"rows", 1 + i % 64}, {"columns", 1 + i / 64}});
        }) <= most);
  CHECK(chain([](std::int64_t i) {
          return sample::problem({{"rows", std::int64_t{1} << i % 16}, {"columns", 16 * (i / 16)}});
        }) <= most);
  CHECK(chain([](std::int64_t i) {
          return sample::problem(
              {{"dtype", i % 3}, {"masked", i % 2}, {"width", 64 << i % 3}, {"rows", i / 6}});
        }) <= most);
  CHECK(chain([](std::int64_t i) {  // a decode loop of growing batches
          return sample::problem({{"width", 128}, {"rows", 1 + i % 256}, {"columns", 2048 + i}});
        }) <= most);
}
