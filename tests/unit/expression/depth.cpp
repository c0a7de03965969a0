// SPDX-License-Identifier: MIT
// The bounds of depth and length where parts of an expression are left out.
#include <catch.hpp>
#include <string>

#include <switchyard/expression/parse.hpp>

#include "sample_names.hpp"

using namespace switchyard;
using namespace sample_names;

namespace expression_depth {

std::string sum_of(const std::string& term, int count) {
  std::string out = term;
  for (int i = 1; i < count; ++i) out += " + " + term;
  return out;
}

TEST_CASE("parts that a constant condition rules out leave no depth behind") {
  CHECK(value(sum_of("(1 ? a : b)", 100)) == 300);
  CHECK(value(sum_of("(0 ? a : b)", 100)) == 500);
  CHECK(value(sum_of("(0 && b)", 100)) == 0);
  CHECK(value(sum_of("(1 || b)", 100)) == 100);
  CHECK(value(sum_of("(1 && b)", 100)) == 100);
  CHECK(value(sum_of("(0 || b)", 100)) == 100);
}

TEST_CASE("parts that the call decides leave no depth behind") {
  CHECK(value(sum_of("(a ? b : a)", 60)) == 300);
  CHECK(value(sum_of("(a && b)", 60)) == 60);
  CHECK(value(sum_of("(a || b)", 60)) == 60);
  CHECK(value(sum_of("min(a, max(b, 1))", 100)) == 300);
  CHECK(value(sum_of("-(!a)", 100)) == 0);
}

TEST_CASE("the stack may be as deep as it says and no deeper") {
  const auto nested = [](std::size_t depth) {
    // min(a, min(a, ... min(a, a))): one value more on the stack for each.
    std::string out;
    for (std::size_t i = 1; i < depth; ++i) out += "min(a, ";
    return out + "a" + std::string(depth - 1, ')');
  };
  CHECK(refusal(nested(24)).empty());
  CHECK_THAT(refusal(nested(expression::max_depth + 1)), has_text("too deep"));
  std::string parentheses(expression::max_depth, '(');
  CHECK_THAT(refusal(parentheses + "a" + std::string(expression::max_depth, ')')),
             has_text("nested too deeply"));
}

TEST_CASE("an expression may have as many instructions as it says and no more") {
  const auto length = [](std::size_t terms) {
    std::string out = "a";
    for (std::size_t i = 1; i < terms; ++i) out += "+a";
    return out;
  };
  CHECK(refusal(length(500)).empty());
  CHECK_THAT(refusal(length(600)), has_text("is too long"));
}

}  // namespace expression_depth
