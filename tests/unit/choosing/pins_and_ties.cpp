// SPDX-License-Identifier: MIT
// Pins whose variants are out of use, and variants that the rows cannot tell apart.
#include <atomic>
#include <catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/select.hpp>

#include "sample_tables.hpp"

using namespace switchyard;

namespace pins_and_ties {

selector_sources sources_of(const std::vector<std::string>& ids, const std::shared_ptr<table>& rows) {
  selector_sources out;
  out.op = &sample::description();
  out.device = sample_tables::card();
  out.manifests = {sample_tables::manifest_with(ids)};
  out.tables = {rows};
  return out;
}

const std::vector<std::int64_t> here = sample::problem({{"rows", 8}, {"columns", 8}});

TEST_CASE("a pin whose variant is out of use gives way to the next pin, and then to the rows") {
  const auto rows = sample_tables::empty_table({"a", "b", "c"});
  sample_tables::add_row(rows->groups[0], 8, 8, {3, 2, 1});
  rows->pins = {{"a", "first", {}, {}}, {"b", "second", {}, {}}};
  std::vector<std::string> warned;
  const auto rules = build_selector(sources_of({"a", "b", "c"}, rows), warned);
  REQUIRE(warned.empty());
  std::vector<std::atomic<bool>> unusable(3);

  CHECK(rules->select(here, unusable).variant == 0);
  CHECK(rules->select(here, unusable).pin == 0);
  unusable[0] = true;
  CHECK(rules->select(here, unusable).variant == 1);
  CHECK(rules->select(here, unusable).pin == 1);
  CHECK(rules->select(here, unusable).why == reason::pinned);
  unusable[1] = true;
  CHECK(rules->select(here, unusable).variant == 2);
  CHECK(rules->select(here, unusable).why == reason::exact);
  unusable[2] = true;
  CHECK(rules->select(here, unusable).variant == no_index);
}

TEST_CASE("a pin holds at both ends of its ranges and not beyond them") {
  const auto rows = sample_tables::empty_table({"a", "b"});
  sample_tables::add_row(rows->groups[0], 8, 8, {2, 1});
  rows->pins = {{"a", "", {}, {{5, 4, 16}, {6, 8, 8}}}};
  std::vector<std::string> warned;
  const auto rules = build_selector(sources_of({"a", "b"}, rows), warned);
  const auto is_pinned = [&](std::int64_t row_count, std::int64_t columns) {
    return rules->select(sample::problem({{"rows", row_count}, {"columns", columns}})).why == reason::pinned;
  };
  CHECK(is_pinned(4, 8));
  CHECK(is_pinned(16, 8));
  CHECK_FALSE(is_pinned(3, 8));
  CHECK_FALSE(is_pinned(17, 8));
  CHECK_FALSE(is_pinned(8, 7));
  CHECK_FALSE(is_pinned(8, 9));
}

TEST_CASE("of variants with one score the one that the nearest row names first is chosen") {
  const auto rows = sample_tables::empty_table({"a", "b", "c"});
  sample_tables::add_times(rows->groups[0], 4, 8, {{1, 5}, {0, 5}, {2, 9}});
  sample_tables::add_times(rows->groups[0], 16, 8, {{1, 5}, {0, 5}, {2, 9}});
  std::vector<std::string> warned;
  const auto rules = build_selector(sources_of({"a", "b", "c"}, rows), warned);
  std::vector<std::atomic<bool>> unusable(3);
  const choice first = rules->select(here, unusable);
  CHECK(first.variant == 1);
  CHECK(first.why == reason::interpolated);
  unusable[1] = true;
  CHECK(rules->select(here, unusable).variant == 0);
}

}  // namespace pins_and_ties
