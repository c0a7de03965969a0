// SPDX-License-Identifier: MIT
// Which of several variants a row prefers that cannot be told apart.
#include <catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <switchyard/expression/parse.hpp>
#include <switchyard/tune/tables/put_row.hpp>
#include <switchyard/tune/tables/ties.hpp>

#include "../../sample_operator.hpp"

using namespace switchyard;

namespace tied_rows {

constexpr std::uint32_t rows_axis = 5;

table empty() {
  table out;
  out.match.axes.assign(sample::description().axes.size(), axis_rule{});
  return out;
}

void put(table& into, std::int64_t rows, const std::map<std::string, double>& times,
         double uncertainty = 0.01) {
  std::vector<tune::row_entry> entries;
  for (const auto& [id, time] : times) entries.push_back({id, time});
  const auto problem = sample::problem({{"rows", rows}, {"columns", 64}});
  tune::put_row(into, sample::description(), problem, {}, entries, uncertainty, 8);
}

std::string first(const table& of, std::int64_t rows) {
  const row_group& group = of.groups.at(0);
  const std::size_t row = tune::find_row(group, sample::problem({{"rows", rows}, {"columns", 64}}));
  REQUIRE(row < group.row_count());
  return group.ids[group.row_times(row)[0].variant];
}

TEST_CASE("a row records the values of the type axes that its group does not name") {
  table into;
  const auto put = [&](std::int64_t rows, std::int64_t alignment) {
    const auto problem = sample::problem({{"dtype", 2}, {"rows", rows}, {"alignment", alignment}});
    tune::put_row(into, sample::description(), problem, {{0, 2}}, {{"a", 1.0}}, 0, 8);
  };
  put(1, 16);
  put(2, 8);
  put(1, 16);
  REQUIRE(into.groups.size() == 1);
  // layout, masked, width, alignment
  CHECK(into.groups[0].measured_with ==
        std::vector<measured_values>{{1, {0}}, {2, {0}}, {3, {0}}, {4, {8, 16}}});
  CHECK(tune::without_rows(into.groups[0], {true, false}).measured_with == into.groups[0].measured_with);
}

TEST_CASE("two times are a tie up to twice the uncertainty") {
  CHECK(tune::tied_up_to(2, 0.02) == Approx(2.08));
  CHECK(tune::tied_up_to(2, 0) == 2);
}

TEST_CASE("a variant that a neighbour did not measure counts there as its slowest") {
  table table = empty();
  put(table, 64, {{"a", 10.1}, {"b", 10}});
  for (const std::int64_t rows : {32, 128}) put(table, rows, {{"b", 12}, {"c", 10}, {"d", 30}});
  CHECK(tune::settle_ties(table) == 0);  // b is behind c around it, but a is not even there
  CHECK(first(table, 64) == "b");
  // Where the neighbours measured it, it wins.
  for (const std::int64_t rows : {32, 128}) put(table, rows, {{"a", 11}, {"b", 12}, {"c", 10}, {"d", 30}});
  CHECK(tune::settle_ties(table) == 1);
  CHECK(first(table, 64) == "a");
}

TEST_CASE("the nearest rows have a say, as many as asked for, and the nearer ones the larger one") {
  table table = empty();
  put(table, 1024, {{"a", 10.1}, {"b", 10}});
  for (const std::int64_t rows : {512, 2048}) put(table, rows, {{"a", 10}, {"b", 11}});
  for (const std::int64_t rows : {4, 8, 16, 32}) put(table, rows, {{"a", 20}, {"b", 10}});
  CHECK(tune::settle_ties(table, 2) == 1);
  CHECK(first(table, 1024) == "a");
  CHECK(tune::settle_ties(table, 0) == 0);  // the row itself alone
  CHECK(first(table, 1024) == "b");
  // 2 * log2(1.1) / 2 = 0.138 for a; 1 / 26 + 1 / 37 + 1 / 50 + 1 / 65 = 0.101 and the row itself against it.
  CHECK(tune::settle_ties(table, 6) == 1);
  CHECK(first(table, 1024) == "a");
  for (const std::int64_t rows : {64, 128}) put(table, rows, {{"a", 20}, {"b", 10}});
  CHECK(tune::settle_ties(table, 8) == 0);
  CHECK(first(table, 1024) == "b");
}

TEST_CASE("the nearest rows have a say wherever they stand in the table") {
  for (const bool far_first : {true, false}) {
    table table = empty();
    const auto put_far = [&table] {
      for (const std::int64_t rows : {4, 8, 16}) put(table, rows, {{"a", 20}, {"b", 10}});
    };
    const auto put_near = [&table] {
      for (const std::int64_t rows : {512, 2048}) put(table, rows, {{"a", 10}, {"b", 11}});
    };
    if (far_first) put_far();
    if (!far_first) put_near();
    put(table, 1024, {{"a", 10.1}, {"b", 10}});
    if (far_first) put_near();
    if (!far_first) put_far();
    CHECK(tune::settle_ties(table, 2) == 1);
    CHECK(first(table, 1024) == "a");
  }
}

TEST_CASE("a size of 1 is as far from the others as its logarithm says") {
  table table = empty();
  put(table, 1, {{"a", 10}, {"b", 20}});   // three doublings away
  put(table, 32, {{"a", 20}, {"b", 10}});  // two
  put(table, 8, {{"a", 10}, {"b", 10.1}});
  CHECK(tune::settle_ties(table, 1) == 1);
  CHECK(first(table, 8) == "b");
}

TEST_CASE("equal scores leave the fastest in its place, and rows of one time as they are") {
  table table = empty();
  put(table, 8, {{"a", 10}, {"b", 10}, {"c", 10}}, 0.5);
  CHECK(tune::settle_ties(table) == 0);
  CHECK(first(table, 8) == "a");
  put(table, 16, {{"c", 10}, {"d", 40}}, 0);
  CHECK(tune::settle_ties(table) == 1);
  CHECK(first(table, 8) == "c");
}

TEST_CASE("the metric says which rows are near") {
  const auto prefers = [](const auto& change) {
    table table = empty();
    put(table, 64, {{"a", 10.1}, {"b", 10}});
    put(table, 65, {{"a", 10}, {"b", 12}});  // near by its logarithm
    put(table, 96, {{"a", 13}, {"b", 10}});  // near by feature "rows % 32"
    change(table.match);
    (void)tune::settle_ties(table, 1);
    return first(table, 64);
  };
  CHECK(prefers([](match_rule&) {}) == "a");
  CHECK(prefers([](match_rule& rule) { rule.axes[rows_axis].metric = axis_metric::linear; }) == "a");
  CHECK(prefers([](match_rule& rule) { rule.axes[rows_axis].metric = axis_metric::exact; }) == "b");
  scope names;
  names.add("rows", {symbol::source::axis, rows_axis});
  const auto feature = [&](match_rule& rule, axis_metric metric, double unit) {
    rule.features.push_back({"rows % 32", expression::parse("rows % 32", names), {}});
    rule.features.back().rule.metric = metric;
    rule.features.back().rule.unit = unit;
  };
  CHECK(prefers([&](match_rule& rule) { feature(rule, axis_metric::exact, 1); }) == "b");
  CHECK(prefers([&](match_rule& rule) { feature(rule, axis_metric::linear, 0.01); }) == "b");
  CHECK(prefers([&](match_rule& rule) { feature(rule, axis_metric::linear, 1e6); }) == "a");
  CHECK(prefers([&](match_rule& rule) { feature(rule, axis_metric::ignore, 1); }) == "a");
  CHECK(prefers([&](match_rule& rule) {
          rule.axes[rows_axis].metric = axis_metric::ignore;
          feature(rule, axis_metric::log, 1);
        }) == "a");  // 0 and 1 are one place: of both neighbours the first row counts
}

}  // namespace tied_rows
