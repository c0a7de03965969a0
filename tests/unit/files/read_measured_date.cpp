// SPDX-License-Identifier: MIT
// When a table was measured, as choosing reads it.
#include <catch.hpp>
#include <ctime>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_measured_date.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table_file.hpp>

#include "../sample_operator.hpp"

namespace dates {

using namespace switchyard;

struct reading {
  std::string date;
  std::vector<std::string> warned;
};

/// Reads what a table states as `measured`.
reading date_of(const std::string& measured) {
  const nlohmann::json document = nlohmann::json::parse("{" + measured + "}");
  const std::string path = "t.json";
  warnings warned;
  reading out;
  out.date = read_measured_date({document, path}, warned);
  out.warned = warned.messages;
  return out;
}

TEST_CASE("a date is a day of the calendar, written as in 2026-11-22") {
  for (const char* good : {"2026-11-22", "2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"}) {
    INFO(good);
    CHECK(switchyard::is_date(good));
  }
  CHECK(switchyard::is_date(switchyard::day_of(std::time(nullptr))));
  CHECK(switchyard::day_of(951782400) == "2000-02-29");
  for (const char* bad : {"",
                          "2026",
                          "2026-11",
                          "2026-11-2",
                          "2026-11-222",
                          "26-11-22",
                          "2026/11/22",
                          "22.11.2026",
                          "2026-13-01",
                          "2026-00-10",
                          "2026-11-00",
                          "2026-11-31",
                          "2023-02-29",
                          "1900-02-29",
                          "2026-1a-22",
                          "2026-11--2",
                          "+026-11-22",
                          "-026-11-22",
                          " 2026-11-22",
                          "2026-11-22 ",
                          "2026-11-22T10:00:00Z",
                          "yesterday",
                          "２０２６-11-22"}) {
    INFO(bad);
    CHECK_FALSE(switchyard::is_date(bad));
  }
}

TEST_CASE("a table is as new as the newest of the runs that it states") {
  CHECK(date_of("").date.empty());
  CHECK(date_of(R"("measured": {"rows": 4})").date.empty());
  CHECK(date_of(R"("measured": {"date": "2026-11-22"})").date == "2026-11-22");
  CHECK(date_of(R"("measured": {"date": "2026-11-22", "before": [{"date": "2026-11-20"}, {"rows": 3}]})")
            .date == "2026-11-22");
  // Whoever wrote it by hand may have put a run in the wrong place.
  CHECK(date_of(R"("measured": {"date": "2026-11-20", "before": [{"date": "2026-11-24"}]})").date ==
        "2026-11-24");
  CHECK(date_of(R"("measured": {"before": [{"date": "2026-11-24"}]})").date == "2026-11-24");
}

TEST_CASE("a date that is none is warned of by its place, and counts as none") {
  const reading word = date_of(R"("measured": {"date": "last week"})");
  CHECK(word.date.empty());
  CHECK(word.warned ==
        std::vector<std::string>{
            "[switchyard.107] t.json: /measured/date: expected a day as in \"2026-11-22\", got "
            "\"last week\"; it is ignored"});
  const reading number = date_of(R"("measured": {"date": 20261122})");
  CHECK(number.date.empty());
  REQUIRE(number.warned.size() == 1);
  CHECK_THAT(number.warned[0], has_text("/measured/date: expected a string, got 20261122"));
  const reading older = date_of(
      R"("measured": {"date": "2026-11-22", "before": [{"date": "2026-11-31"}, {"date": null}, 7, "x"]})");
  CHECK(older.date == "2026-11-22");
  REQUIRE(older.warned.size() == 2);
  CHECK_THAT(older.warned[0], has_text("/measured/before/0/date: ") && has_text("got \"2026-11-31\""));
  CHECK_THAT(older.warned[1], has_text("/measured/before/1/date: "));
}

TEST_CASE("where `measured` is a text or a list, as nothing writes it, there is no date and no warning") {
  for (const char* date :
       {R"("measured": "2026-11-22")", R"("measured": ["2026-11-22"])", R"("measured": null)",
        R"("measured": {"before": "2026-11-22"})", R"("measured": {"before": {}})"}) {
    INFO(date);
    const reading got = date_of(date);
    CHECK(got.date.empty());
    CHECK(got.warned.empty());
  }
}

TEST_CASE(
    "a table has its date whether it is parsed at once or by and by, and a bad one costs nothing else") {
  const std::string head = R"({"schema": "switchyard.table/1", "operator": "scale", "measured": )";
  const std::string rest =
      R"(, "groups": [{"axes": ["rows"], "rows": [{"at": [8], "times_us": {"a": 1}}]}]})";
  const auto measured_on = [&](const std::string& date) {
    return head + "{\"date\": \"" + date + "\"}" + rest;
  };
  for (const std::string& date : std::vector<std::string>{"2026-11-22", "today"}) {
    INFO(date);
    const std::string text = measured_on(date);
    const std::size_t expected = date == "today" ? 1 : 0;
    warnings at_once;
    const table whole = parse_table(text, "t.json", sample::description(), at_once);
    CHECK(whole.measured_on == (expected == 0 ? date : ""));
    CHECK(at_once.messages.size() == expected);
    REQUIRE(whole.groups.size() == 1);
    CHECK(whole.groups[0].row_count() == 1);
    warnings later;
    const table_file file{text, "t.json", sample::description(), later};
    CHECK(file.head().measured_on == whole.measured_on);
    CHECK(later.messages.size() == expected);
    warnings again;
    CHECK(file.read_all(again)->measured_on == whole.measured_on);
    CHECK(again.messages.empty());
  }
}

}  // namespace dates
