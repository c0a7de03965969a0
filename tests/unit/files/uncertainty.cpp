// SPDX-License-Identifier: MIT
// How far a row's times may be off, where only some rows of a group say it.
#include <catch.hpp>
#include <string>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

TEST_CASE("a row's uncertainty is its own, wherever in the group it stands") {
  warnings warned;
  const std::string text =
      R"({"schema": "switchyard.table/1", "operator": "scale", "device": {"backend": "host", "arch": "x86_64"},
          "groups": [{"type": {"dtype": "f16"}, "axes": ["rows", "columns"], "rows": [
            {"at": [1, 8], "times_us": {"a": 1}},
            {"at": [2, 8], "times_us": {"a": 1}},
            {"at": [3, 8], "times_us": {"a": 1}, "uncertainty": 0.25},
            {"at": [4, 8], "times_us": {"a": 1}},
            {"at": [5, 8], "times_us": {"a": 1}, "uncertainty": 1},
            {"at": [6, 8], "times_us": {"a": 1}}]}]})";
  const table read = parse_table(text, "t.json", sample::description(), warned);
  REQUIRE(warned.messages.empty());
  const row_group& group = read.groups.at(0);
  REQUIRE(group.row_count() == 6);
  const double expected[] = {0, 0, 0.25, 0, 1, 0};
  for (std::size_t row = 0; row < 6; ++row) CHECK(group.row_uncertainty(row) == expected[row]);
  const std::string written = format_table(sample::description(), read, {});
  const table again = parse_table(written, "t.json", sample::description(), warned);
  for (std::size_t row = 0; row < 6; ++row) CHECK(again.groups.at(0).row_uncertainty(row) == expected[row]);
}
