// SPDX-License-Identifier: MIT
// The ends of what a table may say, and the order of its times.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_table.hpp>

#include "../sample_operator.hpp"

namespace table_limits {

using namespace switchyard;

table table_saying(const std::string& members, std::size_t warnings_wanted = 0) {
  warnings warned;
  table out = parse_table(R"({"schema": "switchyard.table/1", "operator": "scale")" + members + "}", "t.json",
                          sample::description(), warned);
  INFO((warned.messages.empty() ? std::string{} : warned.messages[0]));
  CHECK(warned.messages.size() == warnings_wanted);
  return out;
}

std::string why_refused(const std::string& members) {
  warnings warned;
  try {
    (void)parse_table(R"({"schema": "switchyard.table/1", "operator": "scale")" + members + "}", "t.json",
                      sample::description(), warned);
  } catch (const file_error& problem) {
    return problem.what();
  }
  return warned.messages.empty() ? std::string{} : warned.messages[0];
}

std::string row_saying(const std::string& members) {
  return R"(, "groups": [{"axes": ["rows"], "rows": [{"at": [8], )" + members + "}]}]";
}

/// The ids of the first row, in its order.
std::vector<std::string> order_of(const std::string& members) {
  const table read = table_saying(row_saying(members));
  const row_group& only = read.groups.at(0);
  std::vector<std::string> out;
  for (const measured_time& time : only.row_times(0)) out.push_back(only.ids[time.variant]);
  return out;
}

TEST_CASE("a row's times are sorted, equal ones by id, and the preferred one comes first") {
  using ids = std::vector<std::string>;
  CHECK(order_of(R"("times_us": {"a": 3, "b": 1, "c": 2})") == ids{"b", "c", "a"});
  CHECK(order_of(R"("times_us": {"a": 2, "b": 2, "c": 1, "d": 2})") == ids{"c", "a", "b", "d"});
  CHECK(order_of(R"("times_us": {"a": 3, "b": 1, "c": 2}, "first": "a")") == ids{"a", "b", "c"});
  CHECK(order_of(R"("times_us": {"a": 3, "b": 1, "c": 2}, "first": "c")") == ids{"c", "b", "a"});
  CHECK(order_of(R"("times_us": {"a": 3, "b": 1}, "first": "b")") == ids{"b", "a"});
  CHECK_THAT(why_refused(row_saying(R"("times_us": {"a": 3, "b": 1}, "first": "c")")),
             has_text("/groups/0/rows/0/first: the row has no time of 'c'"));
  CHECK_THAT(why_refused(row_saying(R"("times_us": {"a": 3}, "first": 5)")),
             has_text("expected a string, got 5"));
}

TEST_CASE("times, sizes, neighbours, envelopes and uncertainties may be at their ends") {
  CHECK(table_saying(row_saying(R"("times_us": {"a": 1e-6, "b": 1e12})")).groups[0].times.size() == 2);
  CHECK_THAT(why_refused(row_saying(R"("times_us": {"a": 0.99e-6})")), has_text("expected a time from 1e-6"));
  CHECK_THAT(why_refused(row_saying(R"("times_us": {"a": 1.01e12})")), has_text("expected a time from 1e-6"));
  CHECK(table_saying(R"(, "groups": [{"axes": ["rows"], "rows": [{"at": [0], "times_us": {"a": 1}}]}])")
            .groups[0]
            .at.at(0) == 0);
  for (const int count : {1, 2, 31, 32})
    CHECK(table_saying(R"(, "neighbours": )" + std::to_string(count)).match.neighbours ==
          static_cast<std::uint32_t>(count));
  CHECK_THAT(why_refused(R"(, "neighbours": -1)"), has_text("expected 1 to 32, got -1"));
  CHECK(table_saying(R"(, "envelope": 0)").match.envelope == 0);
  CHECK(table_saying(R"(, "envelope": 0.25)").match.envelope == 0.25);
  const auto uncertainty = [](const char* share) {
    return table_saying(row_saying(R"("times_us": {"a": 1}, "uncertainty": )" + std::string{share}))
        .groups[0]
        .row_uncertainty(0);
  };
  CHECK(uncertainty("0") == 0);
  CHECK(uncertainty("0.5") == 0.5);
  CHECK(uncertainty("1") == 1);
  for (const char* const wrong : {"-0.1", "1.01"}) {
    CHECK_THAT(why_refused(row_saying(R"("times_us": {"a": 1}, "uncertainty": )" + std::string{wrong})),
               has_text("/uncertainty: expected a fraction of the times, from 0 to 1"));
  }
}

TEST_CASE("a range of a pin may be one size, or begin below zero") {
  const table read = table_saying(
      R"(, "pin": [{"variant": "a", "at": {"rows": [4, 4], "columns": [-2, 9]}}, {"variant": "b", "at": {"rows": 7}}])");
  REQUIRE(read.pins.size() == 2);
  REQUIRE(read.pins[0].at.size() == 2);
  CHECK(read.pins[0].at[0].axis == 6);
  CHECK(read.pins[0].at[0].first == -2);
  CHECK(read.pins[0].at[0].last == 9);
  CHECK(read.pins[0].at[1].first == 4);
  CHECK(read.pins[0].at[1].last == 4);
  CHECK(read.pins[1].at.at(0).first == 7);
  CHECK(read.pins[1].at.at(0).last == 7);
  CHECK(read.pins[1].reason.empty());
  CHECK_THAT(why_refused(R"(, "pin": [{"variant": "a", "at": {"rows": [4, 3]}}])"),
             has_text("/pin/0/at/rows: the range ends before it begins"));
  CHECK_THAT(why_refused(R"(, "pin": [{"variant": "a", "at": {"rows": [1, 2, 3]}}])"),
             has_text("expected a value or [first, last]"));
}

TEST_CASE("what looks like a name is matched as an axis, and anything else as a quantity") {
  for (const char* const name : {"lines", "a", "z", "A", "Z", "_", "r0", "r9", "azAZ09_"})
    CHECK_THAT(why_refused(R"(, "match": {")" + std::string{name} + R"(": "log"})"),
               has_text("[switchyard.108]") && has_text("has no axis '" + std::string{name} + "'"));
  for (const char* const text : {"rows`", "rows{", "rows@", "rows[", "rows/", "rows:", "rows-", "lines "})
    CHECK_THAT(why_refused(R"(, "match": {")" + std::string{text} + R"(": "log"})"),
               has_text("[switchyard.111]"));
  const table read =
      table_saying(R"(, "match": {"rows * columns": {"log": 2}, "rows": "ignore", "columns": "exact"})");
  REQUIRE(read.match.features.size() == 1);
  CHECK(read.match.features[0].text == "rows * columns");
  CHECK(read.match.features[0].rule == axis_rule{axis_metric::log, 2});
  CHECK(read.match.features[0]
            .value.evaluate({sample::problem({{"rows", 6}, {"columns", 7}}), {}, {}, nullptr})
            .value == 42);
  CHECK(read.match.axes[5].metric == axis_metric::ignore);
  CHECK(read.match.axes[6].metric == axis_metric::exact);
  CHECK_THAT(why_refused(R"(, "match": {"rows * stride": "log"})"),
             has_text("goes by the argument 'stride', which no axis of operator 'scale' holds"));
  CHECK_THAT(why_refused(R"(, "match": {"rows * warp_size": "log"})"), has_text("reads axes alone"));
  CHECK_THAT(why_refused(R"(, "match": {"rows": {"log": -1}})"), has_text("the unit must be positive"));
}

TEST_CASE("a device's numbers are taken where they fit, and other members passed over") {
  const table read = table_saying(
      R"(, "device": {"backend": "cuda", "multiprocessors": 4.0, "memory_bandwidth": 4.8e12, "warp_size": -5.5,
          "shared_bytes_per_block": 1e19, "clock": "fast", "more": {"a": 1}})");
  CHECK(read.device.attribute("multiprocessors") == 4);
  CHECK(read.device.attribute("memory_bandwidth") == 4'800'000'000'000);
  CHECK(read.device.attribute("warp_size") == 0);
  CHECK(read.device.attribute("shared_bytes_per_block") == 0);
  CHECK(read.device.backend == "cuda");
  CHECK(read.device.name.empty());
}

TEST_CASE("fingerprints of a group stand before those of the file, and only its own ids have one") {
  const table read = table_saying(R"(, "blobs": {"a": "11", "b": "22", "z": "99"}, "groups": [
      {"axes": ["rows"], "blobs": {"b": "33", "y": "88"}, "rows": [{"at": [8], "times_us": {"a": 1, "b": 2, "c": 3}}]},
      {"axes": ["columns"], "rows": [{"at": [8], "times_us": {"b": 2}}, {"at": [9], "times_us": {"d": 1, "b": 2}}]}])");
  REQUIRE(read.groups.size() == 2);
  CHECK(read.groups[0].ids == std::vector<std::string>{"a", "b", "c"});
  CHECK(read.groups[0].blobs == std::vector<std::string>{"11", "33", ""});
  CHECK(read.groups[1].ids == std::vector<std::string>{"b", "d"});
  CHECK(read.groups[1].blobs == std::vector<std::string>{"22", ""});
  CHECK(read.groups[1].source_group == 1);
  CHECK(read.groups[1].axes == std::vector<std::uint32_t>{6});
}

}  // namespace table_limits
