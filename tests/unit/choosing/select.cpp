// SPDX-License-Identifier: MIT
// What selection promises beyond its answers, which tests/golden holds.
#include <array>
#include <atomic>
#include <catch.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>

#include "../sample_operator.hpp"
#include "environment.hpp"
#include "sample_tables.hpp"
#include "threads.hpp"

using namespace switchyard;

namespace {

std::shared_ptr<const selector> sample_rules() {
  warnings warned;
  std::string variants;
  for (int i = 0; i < 20; ++i) {
    variants += std::string{i > 0 ? "," : ""} + R"json({"id": "v)json" + std::to_string(i) +
                R"json(", "requires": ["rows % )json" + std::to_string(i + 1) +
                R"json( == 0"], "launches": [{"blob": "a", "sha256": ")json" + std::string(64, 'a') +
                R"json(", "kernel": "k", "grid": [1], "block": [1], "parameters": []}]})json";
  }
  std::string rows;
  for (int i = 1; i < 400; ++i) {
    rows += std::string{i > 1 ? "," : ""} + R"({"at": [)" + std::to_string(i * 3) + "," +
            std::to_string(i % 7) + R"(], "times_us": {"v)" + std::to_string(2 + i % 18) +
            R"(": 1.5, "v0": 2, "v1": 3}})";
  }
  selector_sources sources;
  sources.op = &sample::description();
  sources.device.backend = "host";
  sources.device.arch = "x86_64";
  sources.manifests.push_back(std::make_shared<const manifest>(parse_manifest(
      R"({"schema": "switchyard.manifest/1", "operator": "scale", "target": {"backend": "host", "arch": "any"},
          "variants": [)" +
          variants + "]}",
      "m.json", *sources.op, warned)));
  sources.tables.push_back(std::make_shared<const table>(parse_table(
      R"({"schema": "switchyard.table/1", "operator": "scale", "device": {"backend": "host", "arch": "x86_64"},
          "groups": [{"axes": ["rows", "columns"], "rows": [)" +
          rows + "]}]}",
      "t.json", *sources.op, warned)));
  REQUIRE(warned.messages.empty());
  std::vector<std::string> messages;
  return build_selector(sources, messages);
}

}  // namespace

TEST_CASE("a choice is always admissible, and there is one whenever a candidate is") {
  const auto rules = sample_rules();
  std::array<int, 8> reasons{};
  for (std::int64_t rows = 0; rows < 1500; ++rows) {
    const auto problem = sample::problem({{"rows", rows}, {"columns", rows % 11}});
    const choice chosen = rules->select(problem);
    REQUIRE(chosen.variant != no_index);  // v0 takes all
    REQUIRE(rules->admissible(chosen.variant, problem, {}));
    ++reasons[static_cast<std::size_t>(chosen.why)];
  }
  CHECK(reasons[static_cast<std::size_t>(reason::exact)] > 20);
  CHECK(reasons[static_cast<std::size_t>(reason::interpolated)] > 500);
}

TEST_CASE("candidates marked unusable are passed over one after the other, until none is left") {
  const auto rules = sample_rules();
  const auto problem = sample::problem({{"rows", 720'720}, {"columns", 3}});
  std::set<std::uint32_t> admissible;
  for (std::uint32_t i = 0; i < rules->candidates.size(); ++i) {
    if (rules->admissible(i, problem, {})) admissible.insert(i);
  }
  REQUIRE(admissible.size() == 18);  // 720,720 is divisible by 1 to 20 but for 17 and 19

  std::vector<std::atomic<bool>> unusable(rules->candidates.size());
  std::set<std::uint32_t> chosen;
  while (chosen.size() < admissible.size()) {
    const choice next = rules->select(problem, unusable);
    REQUIRE(next.variant != no_index);
    REQUIRE(admissible.contains(next.variant));
    REQUIRE(chosen.insert(next.variant).second);
    unusable[next.variant] = true;
  }
  const choice none = rules->select(problem, unusable);
  CHECK(none.variant == no_index);
  CHECK(none.why == reason::none);
}

TEST_CASE("threads that select at once choose what one thread alone chooses") {
  constexpr std::int64_t problems = 400;
  const auto make = [](std::int64_t rows) {
    return sample::problem({{"rows", rows}, {"columns", rows % 11}});
  };
  // Another selector with the same rules answers for one thread, so that nothing is shared with the others.
  const auto apart = sample_rules();
  std::vector<choice> expected;
  std::set<std::uint32_t> variants;
  for (std::int64_t rows = 0; rows < problems; ++rows) {
    expected.push_back(apart->select(make(rows)));
    variants.insert(expected.back().variant);
  }
  REQUIRE(variants.size() > 5);
  REQUIRE_FALSE(variants.contains(no_index));

  const auto rules = sample_rules();
  std::atomic<int> differing{0};
  switchyard::test::run_threads(std::int64_t{4}, [&](std::int64_t t) {
    for (std::int64_t i = 0; i < problems; ++i) {
      const std::int64_t rows = (i + t * problems / 4) % problems;  // each thread begins elsewhere
      const choice found = rules->select(make(rows));
      const choice& wanted = expected[static_cast<std::size_t>(rows)];
      if (found.variant != wanted.variant || found.why != wanted.why ||
          found.microseconds != wanted.microseconds) {
        differing.fetch_add(1);
      }
    }
  });
  CHECK(differing == 0);
}

TEST_CASE("problems at the ends of the integers are decided") {
  const auto rules = sample_rules();
  for (const std::int64_t rows : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::int64_t{0},
                                  std::numeric_limits<std::int64_t>::max()}) {
    const auto problem = sample::problem({{"rows", rows}, {"columns", rows}});
    const choice chosen = rules->select(problem);
    REQUIRE(chosen.variant != no_index);
    CHECK(chosen.microseconds > 0);
    CHECK(chosen.microseconds < 1e6F);
  }
}

TEST_CASE(
    "without rows the first candidate that may serve is chosen, whatever types stand beside each other") {
  std::mt19937 random{switchyard::test::seed_or(12)};
  for (int round = 0; round < 300; ++round) {
    auto made = std::make_shared<manifest>();
    made->target = {"cuda", "sm_90a"};
    for (std::uint32_t i = 0, count = 1 + random() % 8; i < count; ++i) {
      variant added;
      added.id = "v" + std::to_string(i);
      for (const std::uint32_t axis : {0U, 2U}) {
        if (random() % 3 == 0) added.type.push_back({axis, static_cast<std::int64_t>(random() % 2)});
      }
      added.launches.resize(1);
      made->variants.push_back(std::move(added));
    }
    std::vector<std::string> warned;
    const auto rules =
        build_selector({&sample::description(), sample_tables::card(), {made}, {}, {}, ""}, warned);
    std::vector<std::atomic<bool>> unusable(made->variants.size());
    for (auto& flag : unusable) flag = random() % 3 == 0;
    for (std::int64_t dtype : {0, 1}) {
      for (std::int64_t masked : {0, 1}) {
        const auto problem = sample::problem({{"dtype", dtype}, {"masked", masked}});
        std::uint32_t first = 0;
        while (first < unusable.size() && (unusable[first] || !matches(made->variants[first].type, problem)))
          ++first;
        const choice chosen = rules->select(problem, unusable);
        REQUIRE(chosen.variant == (first < unusable.size() ? first : no_index));
        REQUIRE(chosen.why == (first < unusable.size() ? reason::heuristic : reason::none));
        REQUIRE(chosen.group == no_index);
      }
    }
  }
}

TEST_CASE("a group within its envelope decides before one outside, and of those outside the first") {
  auto specific = sample_tables::empty_table({"a", "b"});
  specific->groups[0].type = {{0, 0}};
  specific->groups.push_back(specific->groups[0]);
  specific->groups[1].type = {};
  sample_tables::add_row(specific->groups[0], 8, 8, {1, 2});
  sample_tables::add_row(specific->groups[1], 512, 8, {2, 1});
  std::vector<std::string> warned;
  const auto rules = build_selector({&sample::description(),
                                     sample_tables::card(),
                                     {sample_tables::manifest_with({"a", "b"})},
                                     {},
                                     {specific},
                                     ""},
                                    warned);
  const auto chosen = [&](std::int64_t dtype, std::int64_t rows) {
    return rules->select(sample::problem({{"dtype", dtype}, {"rows", rows}, {"columns", 8}}));
  };
  CHECK(chosen(0, 16).group == 0);
  CHECK(chosen(0, 16).why == reason::interpolated);
  CHECK(chosen(0, 256).group == 1);
  CHECK(chosen(0, 256).why == reason::interpolated);
  CHECK(chosen(0, 256).variant == 1);
  CHECK(chosen(0, 64).group == 0);  // three octaves from either
  CHECK(chosen(0, 64).why == reason::extrapolated);
  CHECK(chosen(0, 1 << 20).group == 0);
  CHECK(chosen(1, 8).group == 1);
  CHECK(chosen(1, 8).why == reason::extrapolated);
}
