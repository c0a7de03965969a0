// SPDX-License-Identifier: MIT
// Which expressions give an address, and which only say something about one.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/expression/address.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>

namespace {

using namespace switchyard;

bool is_address(const std::string& text) {
  const std::vector<field_description> fields{{"x", value_kind::pointer, 0}, {"n", value_kind::i64, 8}};
  scope names;
  names.add("x", {symbol::source::field, 0, 0, 0, false});
  names.add("n", {symbol::source::field, 1, 0, 0, false});
  names.add("rows", {symbol::source::axis, 0, 0, 0, false});
  return gives_address(expression::parse(text, names), fields);
}

}  // namespace

TEST_CASE("an address, and what is computed from one, is an address") {
  for (const char* const text : {"x", "x + 4 * n", "0 - x", "-x", "n * x", "x % 16", "max(rows, x)",
                                 "next_pow2(x)", "rows > 3 ? x : 1", "rows > 3 ? 1 : x",
                                 "rows > 3 ? (n > 2 ? 1 : x) : 2", "1 + (rows > 3 ? x + 1 : 0)"}) {
    INFO(text);
    CHECK(is_address(text));
  }
}

TEST_CASE("what is said about an address is a number") {
  for (const char* const text :
       {"rows", "n", "n + rows", "x != 0", "8 * (x == 0) + n", "!x", "x ? 1 : 2", "x > 4 ? rows : n",
        "x && n", "x || rows", "(x != 0) + (n != 0) * 2", "rows > 3 && x ? 4 : 8", "7"}) {
    INFO(text);
    CHECK_FALSE(is_address(text));
  }
}
