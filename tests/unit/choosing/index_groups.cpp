// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/index_groups.hpp>

#include "environment.hpp"
#include "sample_tables.hpp"

using namespace switchyard;
using namespace sample_tables;

TEST_CASE("what is ignored is no dimension, and rows are equally near where all is ignored") {
  auto measured = empty_table({"a", "b"});
  add_row(measured->groups[0], 16, 1024, {1.0F, 2.0F});
  add_row(measured->groups[0], 64, 64, {1.0F, 2.0F});
  const auto rules = [&] {
    std::vector<std::string> warned;
    return build_selector({&sample::description(), card(), {manifest_with({"a", "b"})}, {}, {measured}, ""},
                          warned);
  };
  CHECK(rules()->groups[0].dimensions.size() == 2);
  for (const std::uint32_t axis : measured->groups[0].axes) {
    measured->match.axes[axis].metric = axis_metric::ignore;
    CHECK(rules()->groups[0].dimensions.size() == 1);
  }
  const choice far = rules()->select(sample::problem({{"rows", 4096}, {"columns", 4096}}));
  CHECK(far.why == reason::interpolated);
  CHECK(far.distance == 0);
  CHECK(far.row == 0);
}

TEST_CASE("selection does not depend on the order of overlays' and tables' groups") {
  // Groups of tables and overlays, of several ranks and types: the order in which they are asked is total.
  std::mt19937 random{switchyard::test::seed_or(3)};
  const auto table_of = [&](const char* name, const char* arch, std::vector<axis_value> type) {
    auto out = empty_table({"a"});
    out->device.name = name;
    out->device.arch = arch;
    out->groups[0].type = std::move(type);
    add_row(out->groups[0], 4, 4, {1.0F});
    return out;
  };
  std::vector<std::shared_ptr<const table>> all;
  for (const char* name : {"Card 90", "Card 91"}) {
    for (const char* arch : {"sm_90", "sm_80"}) {
      all.push_back(table_of(name, arch, {}));
      all.push_back(table_of(name, arch, {{0, 1}}));
      all.push_back(table_of(name, arch, {{0, 1}, {1, 0}}));
    }
  }
  for (int round = 0; round < 200; ++round) {
    std::shuffle(all.begin(), all.end(), random);
    const auto cut = static_cast<std::ptrdiff_t>(random() % all.size());
    std::vector<std::string> warned;
    const auto rules = build_selector({&sample::description(),
                                       card(),
                                       {manifest_with({"a"})},
                                       {all.begin(), all.begin() + cut},
                                       {all.begin() + cut, all.end()},
                                       ""},
                                      warned);
    const auto is_overlay = [&](const indexed_group& group) {
      const auto& from = rules->tables[group.origins.front().table];
      return std::find(all.begin(), all.begin() + cut, from) != all.begin() + cut;
    };
    for (std::size_t i = 1; i < rules->groups.size(); ++i) {
      const indexed_group& before = rules->groups[i - 1];
      const indexed_group& after = rules->groups[i];
      REQUIRE(is_overlay(before) >= is_overlay(after));
      if (is_overlay(before) != is_overlay(after)) continue;
      REQUIRE(before.rank <= after.rank);
      if (before.rank == table_rank::this_device && after.rank == table_rank::this_device)
        REQUIRE(before.type.size() >= after.type.size());
    }
  }
}

TEST_CASE("a group with more axes than an index takes is reported and not used") {
  auto measured = empty_table({"a"});
  measured->groups[0].axes.assign(max_dimensions + 1, 5);
  measured->groups[0].at.assign(max_dimensions + 1, 4);
  measured->groups[0].times.push_back({0, 1.0F});
  measured->groups[0].first_time.push_back(1);
  measured->groups[0].source_row.push_back(0);
  std::vector<std::string> warned;
  const auto rules =
      build_selector({&sample::description(), card(), {manifest_with({"a"})}, {}, {measured}, ""}, warned);
  REQUIRE(warned.size() == 1);
  CHECK_THAT(warned[0], has_text("table.json: /groups/0: a group has at most 16 axes"));
  CHECK(rules->select(sample::problem({{"rows", 4}})).why == reason::heuristic);
}
