// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <switchyard/expression/scanner.hpp>

#include "thrown.hpp"

using namespace switchyard;

TEST_CASE("tokens are not taken from longer operators") {
  detail::expression_scanner scan{" << <= < ! != ("};
  CHECK_FALSE(scan.take("<"));
  CHECK(scan.take("<<"));
  CHECK_FALSE(scan.take("<"));
  CHECK(scan.take("<="));
  CHECK(scan.take("<"));
  CHECK(scan.take("!"));
  CHECK_FALSE(scan.take("!"));
  CHECK(scan.take("!="));
  CHECK(scan.peek() == '(');
  CHECK_FALSE(scan.at_end());
  CHECK(scan.take("("));
  CHECK(scan.at_end());
  CHECK(scan.peek() == '\0');
}

TEST_CASE("words and numbers end at the first other character") {
  detail::expression_scanner words{"block_m2*3"};
  CHECK(words.word() == "block_m2");
  CHECK(words.position() == 8);
  detail::expression_scanner elements{"w[12]+x[+y[]+z[1"};
  CHECK(elements.word() == "w[12]");
  CHECK(elements.take("+"));
  CHECK(elements.word() == "x");
  CHECK(elements.take("["));
  CHECK(elements.take("+"));
  CHECK(elements.word() == "y");
  CHECK(elements.take("["));
  CHECK(elements.take("]"));
  CHECK(elements.take("+"));
  CHECK(elements.word() == "z");
  CHECK(elements.take("["));
  detail::expression_scanner integers{"9223372036854775807+"};
  CHECK(integers.integer() == 9223372036854775807);
  CHECK(integers.peek() == '+');
  detail::expression_scanner reals{"2.5e-3-1"};
  CHECK(reals.real() == 2.5e-3);
  CHECK(reals.peek() == '-');
}

TEST_CASE("a failure names the column") {
  detail::expression_scanner scan{"a 1.2.3"};
  CHECK(scan.word() == "a");
  CHECK(scan.peek() == '1');
  const auto error = switchyard::test::error_of<expression_error>([&] { return scan.real(); });
  CHECK(std::string{error.what()} == "'a 1.2.3': column 3: '1.2.3' is not a number");
}
