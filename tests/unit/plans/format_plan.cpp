// SPDX-License-Identifier: MIT
// The debug output's line for a plan, in words and as JSON.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/plans/format_plan.hpp>

#include "../launched_operator.hpp"

namespace formatted {

using namespace launched;

explanation row_of_a_table() {
  explanation out;
  out.operator_name = "launched";
  out.problem = "width=64";
  out.device = "card";
  out.variant = "v";
  out.config = "tile=8";
  out.target = "host x86_64";
  out.table = "a\"b.json";
  out.table_group = 2;
  out.table_row = 7;
  out.row_at = "rows=9";
  out.chosen.why = reason::interpolated;
  out.chosen.distance = 0.5F;
  out.chosen.microseconds = 12.25F;
  out.chosen.growth = 2;
  out.launches = {"one", "two"};
  return out;
}

TEST_CASE("a line has the sentence, each launch, and what the choice took") {
  const explanation why = row_of_a_table();
  const std::string begin = to_string(why) + "; one; two";
  using Catch::Matchers::Equals;
  CHECK_THAT(detail::format_line(why, {0, 1500}),
             Equals("switchyard: " + begin + "; selected in 0 ns, loaded in 1.5 us"));
  CHECK_THAT(detail::format_line(why, {250, 2'000'000}),
             Equals("switchyard: " + begin + "; selected in 250 ns, loaded in 2000 us"));
  CHECK_THAT(detail::format_line(why, {}), Equals("switchyard: launch " + begin));
}

TEST_CASE("as JSON, a line has the same") {
  using Catch::Matchers::Equals;
  explanation why = row_of_a_table();
  const std::string sentence = text::quote_json(format_reason(why));
  const std::string launch =
      R"({"event":"launch","operator":"launched","problem":"width=64","device":"card","variant":"v",)"
      R"("config":"tile=8","target":"host x86_64","reason":"interpolated","sentence":)" +
      sentence +
      R"(,"table":"a\"b.json","group":2,"row":7,"distance":0.5,"predicted_us":12.2,"growth":2,)"
      R"("stale":false,"launches":["one","two"]})";
  CHECK_THAT(detail::format_json(why, {}), Equals(launch));
  std::string choice = launch;
  choice.replace(choice.find("\"launch\""), 8, "\"choice\"");
  choice.insert(choice.size() - 1, R"(,"select_ns":0,"load_us":0.75)");
  CHECK_THAT(detail::format_json(why, {0, 750}), Equals(choice));

  why.table.clear();
  why.launches = {"one"};
  why.chosen.stale = true;
  const std::string other = detail::format_json(why, {});
  CHECK_THAT(other, !has_text("\"table\"") && !has_text("\"row\"") && has_text("\"stale\":true") &&
                        has_text(R"("launches":["one"]})"));
}

TEST_CASE("each kernel's line has its grid, block and shared memory; a fill has none") {
  std::vector<planned_launch> launches(4);
  launches[0].geometry = {.grid = {1, 2, 3}, .block = {4, 5, 6}, .shared_bytes = 1};
  launches[1].is_fill = true;
  launches[2].geometry = {.grid = {7, 8, 9}, .block = {1, 1, 2}};
  const auto grid = extents("rows");
  launches[3].per_call_grid = &grid;
  plan made;
  made.launches = launches;
  explanation why;
  why.launches = {"a", "b", "c", "d"};
  detail::add_geometry(made, why);
  CHECK(why.launches == std::vector<std::string>{"a, grid 1x2x3, block 4x5x6, shared 1", "b",
                                                 "c, grid 7x8x9, block 1x1x2",
                                                 "d, grid of the call, block 1x1x1"});
}

}  // namespace formatted
