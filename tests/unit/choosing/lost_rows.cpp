// SPDX-License-Identifier: MIT
// Rows that gave way to others of their sizes, as they are bound and as an explanation names them.
#include <catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/lost_rows.hpp>

#include "sample_tables.hpp"

namespace losing {

using namespace switchyard;

std::shared_ptr<table> table_of(const char* path, const char* date, std::int64_t rows, float time) {
  auto out = sample_tables::empty_table({"a", "b"});
  out->path = path;
  out->measured_on = date;
  sample_tables::add_row(out->groups[0], rows, 1024, {time, time + 1});
  return out;
}

using tables = std::vector<std::shared_ptr<const table>>;

std::shared_ptr<const selector> built(const tables& overlays, const tables& listed) {
  std::vector<std::string> warned;
  auto out = build_selector({&sample::description(),
                             sample_tables::card(),
                             {sample_tables::manifest_with({"a", "b"})},
                             overlays,
                             listed,
                             {}},
                            warned);
  CHECK(warned.empty());
  return out;
}

explanation asked(const selector& of, std::int64_t rows) {
  std::vector<std::int64_t> problem(sample::description().axes.size());
  problem[5] = rows;
  problem[6] = 1024;
  return explain(of, problem, of.select(problem));
}

std::vector<std::string> lost_of(const explanation& why) {
  std::vector<std::string> out;
  for (const lost_row& lost : why.lost)
    out.push_back(lost.table + " " + std::to_string(lost.group) + "/" + std::to_string(lost.row) + ": " +
                  lost.why);
  return out;
}

TEST_CASE("the newest of several rows of the same sizes decides, and the others are named in their order") {
  const auto rules =
      built({}, {table_of("r/undated.json", "", 8, 1), table_of("r/old.json", "2026-11-20", 8, 2),
                 table_of("r/new.json", "2026-11-22", 8, 3), table_of("s/new.json", "2026-11-22", 8, 4),
                 table_of("r/other.json", "2026-11-23", 16, 5)});
  const explanation why = asked(*rules, 8);
  CHECK(why.chosen.why == reason::exact);
  CHECK(why.table == "r/new.json");
  CHECK(why.chosen.microseconds == 3);
  CHECK(lost_of(why) == std::vector<std::string>{"s/new.json 0/0: measured 2026-11-22 too, in a later root",
                                                 "r/old.json 0/0: measured 2026-11-20, older",
                                                 "r/undated.json 0/0: undated"});
  CHECK(
      format_reason(why) ==
      "exact: row 0 of group 0 of r/new.json (rows=8 columns=1024); also in s/new.json (measured 2026-11-22 "
      "too, in a later root) and 2 more");
  const explanation alone = asked(*rules, 16);
  CHECK(alone.table == "r/other.json");
  CHECK(alone.lost.empty());
  CHECK(format_reason(alone) == "exact: row 0 of group 0 of r/other.json (rows=16 columns=1024)");
}

TEST_CASE("an overlay comes before tables and later overlays, whatever their dates are") {
  const auto rules = built({table_of("first.json", "", 8, 1), table_of("second.json", "2026-11-24", 8, 2)},
                           {table_of("t.json", "2026-11-25", 8, 3), table_of("u.json", "", 8, 3)});
  CHECK(rules->overlay_count == 2);
  const explanation why = asked(*rules, 8);
  CHECK(why.table == "first.json");
  CHECK(lost_of(why) == std::vector<std::string>{"second.json 0/0: measured 2026-11-24, a later overlay",
                                                 "t.json 0/0: measured 2026-11-25, under an overlay",
                                                 "u.json 0/0: undated, under an overlay"});
}

TEST_CASE("a row that a file has twice is named too") {
  const auto twice = table_of("t.json", "2026-11-25", 8, 1);
  twice->groups.push_back(twice->groups[0]);
  twice->groups[1].source_group = 3;
  CHECK(lost_of(asked(*built({}, {twice}), 8)) ==
        std::vector<std::string>{"t.json 3/0: measured 2026-11-25, later in the same file"});
}

TEST_CASE("rows of other types, other devices and variants that are not installed lose nothing") {
  const auto of_type = table_of("type.json", "2026-11-20", 8, 1);
  of_type->groups[0].type = {{1, 1}};
  const auto sister = table_of("sister.json", "2026-11-20", 8, 1);
  sister->device.name = "Card 90 B";
  const auto unknown = table_of("unknown.json", "2026-11-25", 8, 1);
  unknown->groups[0].ids = {"x", "y"};
  std::vector<std::string> warned;
  const auto rules = build_selector({&sample::description(),
                                     sample_tables::card(),
                                     {sample_tables::manifest_with({"a", "b"})},
                                     {},
                                     {of_type, sister, unknown, table_of("t.json", "2026-11-22", 8, 2)},
                                     {}},
                                    warned);
  const explanation why = asked(*rules, 8);
  CHECK(why.table == "t.json");
  CHECK(why.lost.empty());
}

TEST_CASE("of two tables for another device at the same distance the newer one is asked first") {
  const auto of_sister = [](const char* path, const char* date, float time) {
    auto out = table_of(path, date, 8, time);
    out->device.name = "Card 90 B";
    return out;
  };
  const explanation why = asked(*built({}, {of_sister("a.json", "2026-11-20", 1), of_sister("b.json", "", 2),
                                            of_sister("c.json", "2026-11-22", 3)}),
                                8);
  CHECK(why.chosen.why == reason::other_device);
  CHECK(why.table == "c.json");
  CHECK(why.lost.empty());
}

}  // namespace losing
