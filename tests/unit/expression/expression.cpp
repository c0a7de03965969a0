// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <random>
#include <string>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/parse.hpp>

#include "environment.hpp"
#include "random_tree.hpp"
#include "sample_names.hpp"

using namespace switchyard;
using namespace sample_names;
using random_trees::outcome;
using random_trees::random_tree;
using random_trees::tree;

TEST_CASE("every operator computes at run time what it computes when folded") {
  struct operation {
    const char* text;
    std::int64_t expected;
  };
  // a = 3, b = 5, c = 0, d = -2
  for (const operation& given : {operation{"a + b", 8},
                                 {"a - b", -2},
                                 {"a * d", -6},
                                 {"b / d", -2},
                                 {"b % d", 1},
                                 {"d / a", 0},
                                 {"d % a", -2},
                                 {"a << b", 96},
                                 {"d >> 1", -1},
                                 {"d << a", -16},
                                 {"a < b", 1},
                                 {"b < a", 0},
                                 {"a < a", 0},
                                 {"a <= a", 1},
                                 {"b <= a", 0},
                                 {"a > b", 0},
                                 {"b > a", 1},
                                 {"a >= b", 0},
                                 {"a >= a", 1},
                                 {"a == b", 0},
                                 {"a == a", 1},
                                 {"a != b", 1},
                                 {"a != a", 0},
                                 {"a && b", 1},
                                 {"a && c", 0},
                                 {"c && a", 0},
                                 {"c || c", 0},
                                 {"c || b", 1},
                                 {"b || c", 1},
                                 {"!a", 0},
                                 {"!c", 1},
                                 {"-d", 2},
                                 {"c ? a : b", 5},
                                 {"a ? a : b", 3},
                                 {"min(a, d)", -2},
                                 {"max(a, d)", 3},
                                 {"min(d, a)", -2},
                                 {"max(d, a)", 3},
                                 {"ceil_div(b, a)", 2},
                                 {"ceil_div(a, a)", 1},
                                 {"ceil_div(c, a)", 0},
                                 {"round_up(b, a)", 6},
                                 {"round_up(a, a)", 3},
                                 {"round_up(c, a)", 0},
                                 {"next_pow2(b)", 8},
                                 {"next_pow2(a + 1)", 4},
                                 {"next_pow2(c)", 1},
                                 {"next_pow2(d)", 1},
                                 {"sqrt(b)", 2},
                                 {"sqrt(a)", 1},
                                 {"sqrt(c)", 0},
                                 {"sqrt(f)", 3037000499},
                                 {"f >> 62", 1}}) {
    CHECK(value(given.text) == given.expected);
    // The same text with the axes' values in place of one-letter names.
    std::string folded;
    const std::string text = given.text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto is_word = [&text](std::size_t k) {
        return k < text.size() &&
               ((text[k] >= 'a' && text[k] <= 'z') || text[k] == '_' || (text[k] >= '0' && text[k] <= '9'));
      };
      if (text[i] >= 'a' && text[i] <= 'f' && !is_word(i + 1) && (i == 0 || !is_word(i - 1))) {
        folded += "(" + std::to_string(axis_values[static_cast<std::size_t>(text[i] - 'a')]) + ")";
      } else {
        folded += text[i];
      }
    }
    const expression constant_expression = expression::parse(folded, names());
    INFO(folded);
    CHECK(constant_expression.is_constant());
    CHECK(constant_expression.evaluate({}).value == given.expected);
  }
}

TEST_CASE("only what is needed is evaluated") {
  CHECK(value("c && 1 / c") == 0);
  CHECK(value("a || 1 / c") == 1);
  CHECK(value("c ? 1 / c : 7") == 7);
  CHECK(value("a ? 7 : 1 / c") == 7);
  CHECK(run("c || 1 / c").why == fault::division_by_zero);
  CHECK(run("a && 1 / c").why == fault::division_by_zero);
  CHECK(run("a ? 1 / c : 7").why == fault::division_by_zero);
  CHECK(value("c && (1 / c) || a && (c == 0 || 2 / c)") == 1);
}

TEST_CASE("a guarded fault among constants is no error: that is what the guard is for") {
  CHECK(value("0 && 1 / 0") == 0);
  CHECK(value("1 || 1 / 0") == 1);
  CHECK(value("0 ? 1 / 0 : 7") == 7);
  CHECK(value("1 ? 7 : 1 / 0") == 7);
  CHECK(value("first == 0 ? 128 : 128 / first") == 128);
  CHECK(value("c && 1 / 0") == 0);
  CHECK(value("c ? 1 << 99 : 3") == 3);
  CHECK(value("a || (9223372036854775807 + 1)") == 1);
  CHECK(value("0 ? (0 ? 1 : 1 / 0) : (1 ? 2 : 1 / 0)") == 2);
  CHECK(run("a && 1 / 0").why == fault::division_by_zero);
  CHECK(run("a ? 1 << 99 : 3").why == fault::out_of_range);
  CHECK_THAT(refusal("1 && 1 / 0"), has_text("divides by zero"));
  CHECK_THAT(refusal("0 || 1 / 0"), has_text("divides by zero"));
  CHECK_THAT(refusal("1 ? 1 / 0 : 7"), has_text("divides by zero"));
  CHECK_THAT(refusal("0 ? 7 : 1 / 0"), has_text("divides by zero"));
}

TEST_CASE("overflow, division by zero and ranges are faults, never wrapped values") {
  CHECK(run("f + 1").why == fault::overflow);
  CHECK(run("-f - 2").why == fault::overflow);
  CHECK(run("f * 2").why == fault::overflow);
  CHECK(run("-wide").why == fault::overflow);
  CHECK(run("wide / -1").why == fault::overflow);
  CHECK(run("wide % -1").why == fault::overflow);
  CHECK(run("f << 1").why == fault::overflow);
  CHECK(run("round_up(f, 2)").why == fault::overflow);
  CHECK(run("next_pow2(f)").why == fault::overflow);
  CHECK(run("a / c").why == fault::division_by_zero);
  CHECK(run("a % c").why == fault::division_by_zero);
  CHECK(run("ceil_div(a, c)").why == fault::division_by_zero);
  CHECK(run("round_up(a, c)").why == fault::division_by_zero);
  CHECK(run("a << d").why == fault::out_of_range);
  CHECK(run("a << 63").why == fault::out_of_range);
  CHECK(run("a >> 64").why == fault::out_of_range);
  CHECK(run("a >> d").why == fault::out_of_range);
  CHECK(run("ceil_div(d, a)").why == fault::out_of_range);
  CHECK(run("ceil_div(a, d)").why == fault::out_of_range);
  CHECK(run("round_up(a, d)").why == fault::out_of_range);
  CHECK(run("sqrt(d)").why == fault::out_of_range);
  CHECK(value("f + 0") == highest);
  CHECK(value("ceil_div(f, 2)") == (std::int64_t{1} << 62));
  CHECK(value("wide >> 63") == -1);
  CHECK(value("next_pow2(1 << 62)") == (std::int64_t{1} << 62));
  CHECK(value("sqrt(9223372030926249001)") == 3037000499);
  CHECK(value("sqrt(9223372030926249000)") == 3037000498);
  CHECK(value("sqrt(4503599761588225)") == 67108865);
  CHECK(value("sqrt(4503599761588224)") == 67108864);
  CHECK_THAT(refusal("9223372036854775807 + 1"), has_text("overflows 64 bits"));
  CHECK_THAT(refusal("1 << 63"), has_text("out of its range"));
  CHECK_THAT(refusal("9223372036854775808"), has_text("does not fit 64 bits"));
  CHECK_THAT(refusal("block_m / first"), has_text("divides by zero"));
}

TEST_CASE("constants are folded, also behind and inside conditionals") {
  CHECK(expression::parse("block_m * 2 + (1 ? 3 : a)", names()).is_constant());
  CHECK(expression::parse("0 ? a : 1 ? 5 : b", names()).is_constant());
  CHECK(expression::parse("0 && a", names()).is_constant());
  CHECK(expression::parse("1 || a", names()).is_constant());
  CHECK(expression::parse("0 ? (a ? 1 : 2) : 4 * 4", names()).is_constant());
  CHECK(expression::parse("(1 ? 4 : (a ? 1 : 2)) * 4", names()).is_constant());
  CHECK_FALSE(expression::parse("a && 0", names()).is_constant());
  CHECK_FALSE(expression::parse("a", names()).is_constant());
  CHECK(value("(a ? 1 : 2) + 3 * 4") == 13);
  CHECK(value("(c ? 1 : 2) + (0 && a) + 1 + 1") == 4);
  CHECK(value("(c || a) + 1 + 2") == 4);
  CHECK(value("0 ? (c ? 1 : 2) : (c ? 3 : 4) + 5 * 6") == 34);
  CHECK(value("1 ? (c ? 1 : 2) + 5 * 6 : (c ? 3 : 4)") == 32);
}

TEST_CASE("folding leaves what depends on other axes and on arguments") {
  const auto folded = [](const std::string& text) {
    return expression::parse(text, names())
        .fold(std::vector<axis_value>{{0, 3}, {1, 5}}, attribute_values_here);
  };
  const auto parsed = [](const std::string& text) { return expression::parse(text, names()); };
  CHECK(folded("(a + b) * warp_size").is_constant());
  CHECK(folded("(a + b) * warp_size").evaluate({}).value == 256);
  CHECK(folded("a == 3 ? c * (b + 1) : d / e") == parsed("c * 6"));
  CHECK(folded("a == 4 ? c : b > 4 ? d + warp_size : e") == parsed("d + 32"));
  CHECK(folded("a == 3 || c").is_constant());
  CHECK(folded("a == 4 && c / d").is_constant());
  CHECK(folded("a && c") == parsed("1 && c"));
  CHECK(folded("(c ? a : b) + a + 1") == parsed("(c ? 3 : 5) + 3 + 1"));
  CHECK(folded("stride * a") == parsed("stride * 3"));
  CHECK(folded("c * d + e") == parsed("c * d + e"));
  CHECK_FALSE(folded("c * a") == parsed("c * 4"));
  // A fault stays where it is met.
  CHECK(folded("a / (b - 5)").evaluate(values()).why == fault::division_by_zero);
  CHECK(folded("c ? a / (b - 5) : 1").evaluate(values()).value == 1);
}

TEST_CASE("an expression says whether it reads arguments of the single call") {
  CHECK(expression::parse("stride * 2", names()).reads_fields());
  CHECK(expression::parse("a ? 1 : stride", names()).reads_fields());
  CHECK_FALSE(expression::parse("a + warp_size + block_m", names()).reads_fields());
  CHECK_FALSE(expression::parse("0 ? stride : a", names()).reads_fields());
  CHECK_FALSE(expression::parse("0 && stride", names()).reads_fields());
}

// Random trees, against an evaluator that walks the tree in 128 bits.
TEST_CASE("random expressions evaluate as their trees do in 128 bits, folded or not") {
  std::mt19937_64 random{switchyard::test::seed_or(20'26)};
  const scope known = names();
  int faulty = 0;
  int sound = 0;
  int refused = 0;
  for (int i = 0; i < 40'000; ++i) {
    const tree made = random_tree(random, 1 + i % 5);
    const std::string text = made.text();
    if (text.size() > expression::max_text) continue;
    const outcome expected = made.evaluate();
    INFO(text);
    std::vector<axis_value> told;
    for (std::uint32_t axis = 0; axis < axis_values.size(); ++axis) {
      if (random() % 2 == 0) told.push_back({axis, axis_values[axis]});
    }
    try {
      const expression parsed = expression::parse(text, known);
      for (const expression& same : {parsed, parsed.fold(told, attribute_values_here)}) {
        const integer_result got = same.evaluate(values());
        REQUIRE(to_string(got.why) == to_string(expected.why));
        if (expected.why == fault::none) REQUIRE(got.value == expected.value);
      }
      ++(expected.why == fault::none ? sound : faulty);
    } catch (const expression_error& problem) {
      // Refused at load: only what has no value whenever it is evaluated.
      INFO(problem.what());
      REQUIRE(expected.why != fault::none);
      ++refused;
    }
  }
  CHECK(sound > 10'000);
  CHECK(faulty > 1'000);
  CHECK(refused > 1'000);
}
