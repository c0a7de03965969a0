// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>

#include "../sample_operator.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace {

table table_from(const std::string& members, warnings& warned) {
  return parse_table(R"({"schema": "switchyard.table/1", "operator": "scale")" + members + "}",
                     "tables/scale/card.json", sample::description(), warned);
}
std::string group(const std::string& rows) {
  return R"(, "groups": [{"type": {"dtype": "f16"}, "axes": ["rows", "columns"], "rows": [)" + rows + "]}]";
}
std::string table_refusal(const std::string& members, error_code code = error_code::invalid_entry) {
  warnings warned;
  return switchyard::test::refusal_by<file_error>(code, [&] { return table_from(members, warned); });
}
/// The one warning that a table's entry gives.
std::string warning(const std::string& members) {
  warnings warned;
  (void)table_from(members, warned);
  REQUIRE(warned.messages.size() == 1);
  return warned.messages[0];
}

}  // namespace

TEST_CASE("a table's members are read") {
  warnings warned;
  const table out = table_from(
      R"(, "device": {"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H200", "multiprocessors": 132, "mood": "x"},
          "match": {"rows": "linear", "columns": {"linear": 256}}, "neighbours": 4, "envelope": 0.75,
          "blobs": {"a": "1111", "b": "2222"},
          "deny": [{"variant": "c", "reason": "wrong for ragged rows", "type": {"masked": true}}],
          "pin": [{"variant": "a", "at": {"rows": [1, 64], "columns": 8}, "type": {"dtype": "bf16"}}],
          "groups": [{"type": {"dtype": "f16", "masked": false}, "axes": ["rows", "columns"], "blobs": {"b": "3333"},
                      "rows": [{"at": [4, 1024], "times_us": {"a": 7.5, "b": 3}},
                               {"at": [8, 1024], "times_us": {"b": 9}}]}])",
      warned);
  CHECK(warned.messages.empty());
  CHECK(out.device.backend == "cuda");
  CHECK(out.device.arch == "sm_90");
  CHECK(out.device.name == "NVIDIA H200");
  CHECK(out.device.attribute("multiprocessors") == 132);
  CHECK(out.match.axes[5].metric == axis_metric::linear);
  CHECK(out.match.axes[5].unit == 1);
  CHECK(out.match.axes[6].unit == 256);
  CHECK(out.match.neighbours == 4);
  CHECK(out.match.envelope == 0.75);
  REQUIRE(out.denials.size() == 1);
  CHECK(out.denials[0].reason == "wrong for ragged rows");
  CHECK(out.denials[0].type == std::vector<axis_value>{{2, 1}});
  REQUIRE(out.pins.size() == 1);
  REQUIRE(out.pins[0].at.size() == 2);
  CHECK(out.pins[0].at[0].axis == 6);
  CHECK(out.pins[0].at[0].first == 8);
  CHECK(out.pins[0].at[0].last == 8);
  CHECK(out.pins[0].at[1].last == 64);
  REQUIRE(out.groups.size() == 1);
  const row_group& rows = out.groups[0];
  CHECK(rows.type == std::vector<axis_value>{{0, 0}, {2, 0}});
  CHECK(rows.axes == std::vector<std::uint32_t>{5, 6});
  REQUIRE(rows.row_count() == 2);
  CHECK(rows.coordinates(1)[0] == 8);
  REQUIRE(rows.row_times(0).size() == 2);
  CHECK(rows.ids[rows.row_times(0)[0].variant] == "b");  // fastest first
  CHECK(rows.row_times(0)[0].microseconds == 3);
  for (std::size_t i = 0; i < 2; ++i) CHECK(rows.blobs[i] == (rows.ids[i] == "a" ? "1111" : "3333"));
}

TEST_CASE("axes that match does not name are logarithmic") {
  warnings warned;
  const table out = table_from("", warned);
  CHECK(out.match.axes.size() == sample::description().axes.size());
  CHECK(out.match.axes[5] == axis_rule{axis_metric::log, 1});
  CHECK(out.match.neighbours == 8);
  CHECK(out.groups.empty());
}

TEST_CASE("a bad row is left out with its place, and the rest of the group serves") {
  struct bad {
    const char* row;
    const char* message;
  };
  const auto sample = GENERATE(
      bad{"5", "/groups/0/rows/1: expected an object, got 5"}, bad{"{}", "/groups/0/rows/1: 'at' is missing"},
      bad{R"({"at": [1], "times_us": {"a": 1}})", "/groups/0/rows/1/at: expected 2 integers, got 1"},
      bad{R"({"at": [1, 2, 3], "times_us": {"a": 1}})", "/at: expected 2 integers, got 3"},
      bad{R"({"at": [1, 2.5], "times_us": {"a": 1}})", "/at/1: expected an integer, got 2.5"},
      bad{R"({"at": [1, -2], "times_us": {"a": 1}})", "/at/1: a size must not be negative, got -2"},
      bad{R"({"at": [1, 99999999999999999999], "times_us": {"a": 1}})", "/at/1: expected an integer"},
      bad{R"({"at": [1, 2]})", "/groups/0/rows/1: 'times_us' is missing"},
      bad{R"({"at": [1, 2], "times_us": {}})", "/times_us: a row has at least one time"},
      bad{R"({"at": [1, 2], "times_us": {"z": 1, "a": 0}})",
          "/times_us/a: expected a time from 1e-6 to 1e12 us"},
      bad{R"({"at": [1, 2], "times_us": {"a": -3}})", "/times_us/a: expected a time from 1e-6"},
      bad{R"({"at": [1, 2], "times_us": {"a": 1e-300}})", "/times_us/a: expected a time from 1e-6"},
      bad{R"({"at": [1, 2], "times_us": {"a": 1e13}})", "/times_us/a: expected a time from 1e-6"},
      bad{R"({"at": [1, 2], "times_us": {"a": "fast"}})", "/times_us/a: expected a number, got \"fast\""},
      bad{R"({"at": [4, 4], "times_us": {"a": 9, "n": 9}})",
          "/rows/1/at: the group already has a row for these sizes"});
  INFO(sample.row);
  warnings warned;
  const table out = table_from(group(R"({"at": [4, 4], "times_us": {"a": 1, "b": 2}},)" +
                                     std::string{sample.row} + R"(, {"at": [8, 8], "times_us": {"b": 3}})"),
                               warned);
  REQUIRE(warned.messages.size() == 1);
  CHECK_THAT(warned.messages[0], has_text("tables/scale/card.json: ") && has_text(sample.message));
  REQUIRE(out.groups.size() == 1);
  const row_group& rows = out.groups[0];
  REQUIRE(rows.row_count() == 2);
  CHECK(rows.coordinates(0)[0] == 4);
  CHECK(rows.coordinates(1)[1] == 8);
  CHECK(rows.row_times(0).size() == 2);
  REQUIRE(rows.row_times(1).size() == 1);
  CHECK(rows.row_times(1)[0].microseconds == 3);
  CHECK(rows.source_row == std::vector<std::uint32_t>{0, 2});
  CHECK(rows.times.size() == rows.first_time.back());
}

TEST_CASE("what rows were measured with is read sorted, each value once, and written as it was read") {
  warnings warned;
  const table out = table_from(R"(, "groups": [{"type": {"dtype": "f16"}, "axes": ["rows"],
      "measured_with": {"alignment": [16, 4, 16], "masked": false, "layout": ["paged", "dense"]},
      "rows": [{"at": [1], "times_us": {"a": 1}}]}])",
                               warned);
  CHECK(warned.messages.empty());
  REQUIRE(out.groups.size() == 1);
  CHECK(out.groups[0].measured_with == std::vector<measured_values>{{1, {0, 2}}, {2, {0}}, {4, {4, 16}}});
  const std::string written = format_table(sample::description(), out, {});
  CHECK_THAT(
      written,
      has_text(R"("measured_with": {"layout": ["dense", "paged"], "masked": false, "alignment": [4, 16]})"));
  const table again = parse_table(written, "again.json", sample::description(), warned);
  CHECK(warned.messages.empty());
  REQUIRE(again.groups.size() == 1);
  CHECK(again.groups[0].measured_with == out.groups[0].measured_with);
}

TEST_CASE("winners without times are read in their order and written as they were read") {
  warnings warned;
  const table out = table_from(R"(, "groups": [{"axes": ["rows"],
      "rows": [{"at": [1], "winners": ["b", "a"]}, {"at": [2], "winners": ["a"]}]}])",
                               warned);
  CHECK(warned.messages.empty());
  REQUIRE(out.groups.size() == 1);
  const row_group& rows = out.groups[0];
  CHECK_FALSE(rows.timed);
  REQUIRE(rows.row_count() == 2);
  REQUIRE(rows.row_times(0).size() == 2);
  CHECK(rows.ids[rows.row_times(0)[0].variant] == "b");
  CHECK_THAT(
      format_table(sample::description(), out, {}),
      has_text(R"({"at": [1], "winners": ["b", "a"]})") && has_text(R"({"at": [2], "winners": ["a"]})"));

  CHECK_THAT(warning(group(R"({"at": [1, 1], "winners": []})")),
             has_text("/winners: a row names at least one"));
  CHECK_THAT(warning(group(R"({"at": [1, 1], "winners": ["a", "a"]})")),
             has_text("/winners/1: 'a' is listed twice"));
  CHECK_THAT(warning(group(R"({"at": [1, 1], "winners": ["a"], "times_us": {"a": 1}})")),
             has_text("/times_us: a row with 'winners' has no times; remove one of the two"));
  CHECK_THAT(warning(group(R"({"at": [1, 1], "winners": ["a"]}, {"at": [2, 1], "times_us": {"a": 1}})")),
             has_text("/rows/1: the rows of a group have either 'times_us' or 'winners'; use two groups"));
}

TEST_CASE("a bad group, denial or pin is left out with its place") {
  CHECK_THAT(warning(R"(, "groups": [{"type": {"dtype": "f99"}, "axes": [], "rows": []}])"),
             has_text("/groups/0/type/dtype: axis 'dtype' has no value 'f99'"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["row"], "rows": []}])"),
             has_text("[switchyard.108]") &&
                 has_text("/groups/0/axes/0: operator 'scale' has no axis 'row'; did you mean 'rows'?"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["dtype"], "rows": []}])"),
             has_text("'dtype' is a type axis; put it into 'type'"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows", "rows"], "rows": []}])"),
             has_text("/axes/1: axis 'rows' is listed twice"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"]}])"), has_text("'rows' is missing"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"], "rows": {}}])"),
             has_text("/groups/0/rows: expected an array, got an object"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"], "rows": [], "measured_with": {"columns": 4}}])"),
             has_text("[switchyard.108]") &&
                 has_text("/groups/0/measured_with/columns: 'columns' is a size axis; the rows give its"));
  CHECK_THAT(
      warning(R"(, "groups": [{"type": {"dtype": "f16"}, "axes": ["rows"], "rows": [],
                         "measured_with": {"dtype": "f16"}}])"),
      has_text("/groups/0/measured_with/dtype: 'type' names this axis already; remove one of the two"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"], "rows": [], "measured_with": {"width": []}}])"),
             has_text("/groups/0/measured_with/width: expected a value, or a list of at least one"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"], "rows": [], "measured_with": {"layout": "odd"}}])"),
             has_text("/groups/0/measured_with/layout: axis 'layout' has no value 'odd'"));
  CHECK_THAT(warning(R"(, "groups": [{"axes": ["rows"], "rows": [], "measured_with": {"lines": 1}}])"),
             has_text("operator 'scale' has no axis 'lines'"));
  CHECK_THAT(warning(R"(, "deny": [{"reason": "x"}])"), has_text("/deny/0: 'variant' is missing"));
  CHECK_THAT(warning(R"(, "deny": [{"variant": "a", "type": {"rows": 1}}])"),
             has_text("'rows' is a size axis"));
  CHECK_THAT(warning(R"(, "deny": [{"variant": "a", "reason": 5}])"),
             has_text("/deny/0/reason: expected a string, got 5"));
  CHECK_THAT(warning(R"(, "pin": [{"variant": "a", "at": {"rows": [5, 4]}}])"),
             has_text("the range ends before it begins"));
  CHECK_THAT(warning(R"(, "pin": [{"variant": "a", "at": {"rows": [5]}}])"),
             has_text("expected a value or [first, last]"));
  CHECK_THAT(warning(R"(, "pin": [{"variant": "a", "at": {"lines": 5}}])"), has_text("has no axis 'lines'"));
  CHECK_THAT(warning(R"(, "blobs": {"a": 5})"), has_text("/blobs/a: expected a string, got 5"));
  warnings warned;
  const table out = table_from(R"(, "deny": [1, {"variant": "a"}], "pin": [1, {"variant": "b"}],
      "groups": [1, {"axes": [], "rows": [{"at": [], "times_us": {"a": 1}}]}])",
                               warned);
  CHECK(warned.messages.size() == 3);
  CHECK(out.denials.size() == 1);
  CHECK(out.pins.size() == 1);
  CHECK(out.groups.size() == 1);
}

TEST_CASE("what is wrong with the table's rule or device refuses the table") {
  CHECK_THAT(table_refusal(R"(, "match": {"seqlen": "log"})", error_code::unknown_axis),
             has_text("/match: operator 'scale' has no axis 'seqlen'"));
  CHECK_THAT(table_refusal(R"(, "match": {"rows": "cubic"})"),
             has_text("/match/rows: expected \"log\", \"linear\", \"exact\", \"ignore\""));
  CHECK_THAT(table_refusal(R"(, "match": {"rows": {"linear": 0}})"),
             has_text("/match/rows/linear: the unit must be positive"));
  CHECK_THAT(table_refusal(R"(, "match": {"rows": {}})"), has_text("'linear' is missing"));
  CHECK_THAT(table_refusal(R"(, "neighbours": 0)"), has_text("/neighbours: expected 1 to 32, got 0"));
  CHECK_THAT(table_refusal(R"(, "neighbours": 33)"), has_text("got 33"));
  CHECK_THAT(table_refusal(R"(, "envelope": -1)"), has_text("/envelope: must not be negative"));
  CHECK_THAT(table_refusal(R"(, "device": [])"), has_text("/device: expected an object, got an array of 0"));
  CHECK_THAT(table_refusal(R"(, "device": {"name": 5})"), has_text("/device/name: expected a string, got 5"));
  CHECK_THAT(table_refusal(R"(, "groups": {})"), has_text("/groups: expected an array, got an object"));
}

TEST_CASE("a table of another operator is refused with a remedy") {
  warnings warned;
  const auto problem = switchyard::test::error_of<file_error>([&] {
    return parse_table(R"({"schema": "switchyard.table/1", "operator": "rotary"})", "t.json",
                       sample::description(), warned);
  });
  CHECK(problem.code() == error_code::unknown_operator);
  CHECK_THAT(problem.what(),
             has_text("is for operator 'rotary', but was found where files of 'scale' belong; move it"));
}
