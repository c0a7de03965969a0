// SPDX-License-Identifier: MIT
// How a table was measured: what is read is written again, whatever version wrote it.
#include <catch.hpp>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/measurement.hpp>
#include <switchyard/files/read_measurement.hpp>

using namespace switchyard;

namespace {

[[nodiscard]] std::vector<measurement> runs_of(const std::string& measured) {
  return read_measurements(nlohmann::json::parse("{\"measured\": " + measured + "}"));
}

[[nodiscard]] std::string written(const std::string& measured) {
  const auto runs = runs_of(measured);
  REQUIRE(runs.size() == 1);
  return "{" + format_members(runs[0]) + "}";
}

}  // namespace

TEST_CASE("a measurement is written as it was read") {
  const std::string text =
      R"({"date": "2026-11-22", "tool": "switchyard 0.1.0", "driver": 12080, "rows": 7, "runs": 2, )"
      R"("statistic": "median", "samples": {"least": 5, "most": 15}, "precision": 0.01, "drift": 0.03, )"
      R"("cache": {"state": "rotating", "bytes": 125829120}, "launches": "stream", "sustained": 2.5, )"
      R"("clocks": {"mhz": {"least": 1755, "most": 1980}, "memory_mhz": {"least": 3201, "most": 3201}, )"
      R"("celsius": {"least": 30, "most": 45}, "limited_by": ["power"]}, )"
      R"("checks": {"reference": "f64", "whole": 4, "rows": 2, "smaller": 1, "unchecked": 9}, )"
      R"("merged": {"tables": 2, "repeated_rows": 3, "conflict": "median"}, "note": "behind a \"fill\""})";
  CHECK(written(text) == text);
  const measurement run = runs_of(text)[0];
  CHECK(run.samples == least_and_most{5, 15});
  CHECK(run.clocks.limited_by == std::vector<std::string>{"power"});
  CHECK(run.checks.smaller == 1);
  CHECK(run.checks.unchecked == 9);
  CHECK((run.launches == "stream" && run.sustained == 2.5));
}

TEST_CASE("texts of older files become a note, numbers that were texts numbers") {
  const measurement run = runs_of(
      R"({"date": "2026-11-20", "driver": "12080", "repeat": "medians", "rows": "3", "clocks": "1980 MHz"})")
      [0];
  CHECK(run.driver == 12080);
  CHECK(run.rows == 3);
  CHECK(run.note == "clocks: 1980 MHz; repeat: medians");
  CHECK(runs_of(R"({"driver": "570.86"})")[0].note == "driver: 570.86");
}

TEST_CASE("what a newer version wrote is kept") {
  CHECK(written(R"({"date": 7, "precision": [1], "laser": {"colour": "red"}})") ==
        R"({"date": 7, "laser": {"colour":"red"}, "precision": [1]})");
  CHECK(written(R"({"clocks": {"mhz": 5, "limited_by": "sun"}, "rows": -1})") == "{}");
}

TEST_CASE("runs before are read newest first, and nothing is no run") {
  CHECK(runs_of("7").empty());
  CHECK(read_measurements(nlohmann::json::array()).empty());
  const auto runs = runs_of(R"({"date": "b", "before": [{"date": "a"}, 3, {"date": "0"}]})");
  REQUIRE(runs.size() == 3);
  CHECK(runs[1].date == "a");
  CHECK(runs[2].date == "0");
}

TEST_CASE("ranges widen") {
  least_and_most range;
  CHECK(!range.known());
  range.add({});
  CHECK(!range.known());
  range.add({30, 40});
  range.add({20, 35});
  range.add({});
  CHECK(range == least_and_most{20, 40});
}
