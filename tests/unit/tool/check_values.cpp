// SPDX-License-Identifier: MIT
// At which sizes a variant's expressions are tried, and what is said of those that fail.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/tool/check_values.hpp>

#include "../sample_operator.hpp"

namespace {

using namespace switchyard;

/// What is said of a variant with this grid and these conditions.
std::vector<std::string> said_of(const std::string& grid, const std::vector<std::string>& conditions = {},
                                 const std::string& backend = "host") {
  const scope names = switchyard::detail::make_scope(sample::description());
  variant owner;
  for (const std::string& text : conditions)
    owner.conditions.push_back({text, expression::parse(text, names)});
  launch& only = owner.launches.emplace_back();
  only.kernel = "k";
  for (auto* const extents : {&only.grid, &only.block, &only.cluster}) extents->fill(expression{1});
  only.shared_bytes = expression{0};
  only.grid[0] = expression::parse(grid, names);
  const target on{backend, "any"};
  std::vector<std::string> out;
  for (const tool::value_problem& found : tool::value_checker{sample::description(), on, true}.check(owner))
    out.push_back(found.text);
  return out;
}

}  // namespace

TEST_CASE("expressions that have a value for every size are not reported", "[tool]") {
  for (const char* const text : {"1", "rows", "ceil_div(rows, 64)", "rows * columns", "min(rows, 2147483647)",
                                 "max(rows - 8, 1)", "rows == 7 ? 1 : 4096 / (rows - 7 > 0 ? rows - 7 : 1)",
                                 "stride", "multiprocessors * 4", "rows / width + 1"}) {
    INFO(text);
    CHECK(said_of(text).empty());
  }
}

TEST_CASE("an expression that fails is reported with the first call that it fails for", "[tool]") {
  CHECK(
      said_of("0 - 1") ==
      std::vector<std::string>{"kernel 'k': grid[0] would be -1 for every call; it must be 0 to 4294967295"});
  CHECK(said_of("1 << 32").size() == 1);
  CHECK(said_of("max(4096 / (rows - 77), 1)") ==
        std::vector<std::string>{"kernel 'k': grid[0] divides by zero for rows=77"});
  CHECK(said_of("rows - 3") ==
        std::vector<std::string>{"kernel 'k': grid[0] would be -2 for rows=1; it must be 0 to 4294967295"});
  CHECK(said_of("8 / (columns - 5 + rows * 0)").size() == 1);
  CHECK(said_of("rows * columns / (rows - columns)").size() == 1);
  CHECK(said_of("9223372036854775807 * rows").size() == 1);
  CHECK(said_of("stride / 0").size() == 1);
  CHECK(said_of("0 - multiprocessors").size() == 1);
}

TEST_CASE("sizes that a condition excludes are not tried, and those at its end are", "[tool]") {
  CHECK(said_of("4096 / (rows - 77)", {"rows != 77", "rows > 77"}).empty());
  CHECK(said_of("rows - 3", {"rows >= 3"}).empty());
  CHECK(said_of("rows - 3", {"rows >= 2"}).size() == 1);
  CHECK(said_of("rows - 3", {"rows + columns >= 100", "columns < 50", "columns > 48"}).empty());
  CHECK(said_of("rows", {"rows <= 4294967295"}).empty());
  CHECK(said_of("rows", {"rows <= 4294967296"}).size() == 1);
  CHECK(said_of("rows", {"rows <= 2147483647"}, "cuda").empty());
  CHECK(said_of("rows", {"rows <= 2147483648"}, "cuda").size() == 1);
  CHECK(said_of("rows", {"rows <= 9223372036854775807"}).empty());  // no bound: nothing is as large
}
