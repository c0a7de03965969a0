// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cmath>
#include <string>

#include <switchyard/expression/parse.hpp>

#include "../comma_locale.hpp"
#include "sample_names.hpp"

using namespace switchyard;
using namespace sample_names;

TEST_CASE("operators bind as in C") {
  CHECK(value("2 + 3 * 4") == 14);
  CHECK(value("(2 + 3) * 4") == 20);
  CHECK(value("20 - 3 - 4") == 13);
  CHECK(value("100 / 10 / 5") == 2);
  CHECK(value("17 % 10 * 2") == 14);
  CHECK(value("1 << 2 + 1") == 8);
  CHECK(value("256 >> 2 >> 1") == 32);
  CHECK(value("1 << 3 > 7") == 1);
  CHECK(value("3 < 2 == 0") == 1);
  CHECK(value("1 == 2 || 3 != 4 && 0 == 0") == 1);
  CHECK(value("1 || 0 && 0") == 1);
  CHECK(value("-2 * -3") == 6);
  CHECK(value("!0 + 1") == 2);
  CHECK(value("!!7") == 1);
  CHECK(value("- -5") == 5);
  CHECK(value("1 ? 2 : 0 ? 3 : 4") == 2);
  CHECK(value("0 ? 2 : 0 ? 3 : 4") == 4);
  CHECK(value("a == 3 ? b == 4 ? 1 : 2 : 3") == 2);
  CHECK(value("a > 2 && b ? 10 : 20") == 10);
}

TEST_CASE("names are axes, arguments of any type, attributes and constants") {
  CHECK(value("a * 10 + b") == 35);
  CHECK(value("stride") == -7);
  CHECK(value("flags") == 200);
  CHECK(value("seed") == 0xffffffff);
  CHECK(value("small") == -300);
  CHECK(value("bits") == 0x3c00);
  CHECK(value("tiny") == -128);
  CHECK(value("wide") == lowest);
  CHECK(value("scale * 1") == 0);
  CHECK(value("big") == 0);
  CHECK(value("warp_size") == 32);
  CHECK(value("block_m * second") == 64);
}

TEST_CASE("wrong text is refused with its column and what is wrong") {
  CHECK(refusal("seqlen * 2") == "'seqlen * 2': column 1: unknown name 'seqlen'");
  CHECK(refusal("2 * warpsize") ==
        "'2 * warpsize': column 5: unknown name 'warpsize'; did you mean 'warp_size'?");
  CHECK_THAT(refusal("clash + 1"),
             has_text("'clash' is an enumerator of several axes with different values"));
  CHECK_THAT(refusal("pi * 2"), has_text("'pi' is real; this expression is an integer one"));
  CHECK_THAT(refusal("1 +"), has_text("column 4: expected a number, a name or '('"));
  CHECK_THAT(refusal(""), has_text("expected a number, a name or '('"));
  CHECK_THAT(refusal("(1 + 2"), has_text("expected ')'"));
  CHECK_THAT(refusal("1 2"), has_text("column 3: unexpected '2'"));
  CHECK_THAT(refusal("a & b"), has_text("unexpected '&'"));
  CHECK_THAT(refusal("a = b"), has_text("unexpected '='"));
  CHECK_THAT(refusal("a ? 1"), has_text("expected ':'"));
  CHECK_THAT(refusal("min(1)"), has_text("'min' takes 2 arguments, got 1"));
  CHECK_THAT(refusal("next_pow2(1, 2)"), has_text("'next_pow2' takes 1 arguments, got 2"));
  CHECK_THAT(refusal("ceildiv(1, 2)"), has_text("no function 'ceildiv'; did you mean 'ceil_div'?"));
  CHECK_THAT(refusal("sqrt(1, 2)"), has_text("'sqrt' takes 1 arguments, got 2"));
  CHECK_THAT(refusal("log2(4)"), has_text("'log2' is a function of real expressions"));
  CHECK_THAT(refusal("1.5"), has_text("unexpected '.'"));
  CHECK_THAT(refusal("a\n+ b"), has_text("unexpected"));
  CHECK(refusal(std::string{"a \0 b", 5}) == "'a ? b': column 3: unexpected '?'");
  CHECK_THAT(refusal("min(1, 2"), has_text("expected ')'"));
}

TEST_CASE("text, instructions, stack and nesting are bounded") {
  CHECK_THAT(refusal(std::string(expression::max_text + 1, ' ')), has_text("is longer than 4096"));
  CHECK(refusal("1" + std::string(expression::max_text - 1, ' ')).empty());
  std::string sum = "a";
  for (int i = 0; i < 600; ++i) sum += "+b";
  CHECK_THAT(refusal(sum), has_text("is too long"));
  CHECK_THAT(refusal(std::string(2000, '(')), has_text("is nested too deeply"));
  CHECK_THAT(refusal(std::string(2000, '-') + "1"), has_text("is nested too deeply"));
  std::string chain;
  for (int i = 0; i < 60; ++i) chain += "a?b:";
  CHECK_THAT(refusal(chain + "c"), has_text("is nested too deeply"));
  CHECK(value(std::string(20, '(') + "a" + std::string(20, ')')) == 3);
  CHECK(refusal(std::string(5000, 'x')).size() < 200);
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "a + (";
  CHECK(value(deep + "a" + std::string(20, ')')) == 63);
}

TEST_CASE("real expressions have decimals, roots, powers and logarithms") {
  CHECK(real("0.5 + 1e-3") == 0.501);
  CHECK(real(".25") == 0.25);
  CHECK(real("2.5E2") == 250);
  CHECK(real("1e+2") == 100);
  CHECK(real("-1.5 * 2") == -3);
  CHECK(real("1 / 4") == 0.25);
  CHECK(real("sqrt(16.0)") == 4);
  CHECK(real("log2(8)") == 3);
  CHECK(real("exp2(0.5) * exp2(0.5)") == Approx(2));
  CHECK(real("scale * 8") == 1);
  CHECK(real("big") == 1e300);
  CHECK(real("a / b") == 0.6);
  CHECK(real("warp_size * 0.5") == 16);
  CHECK(real("block_m") == 64);
  CHECK(real("2 * pi") == Approx(6.28318530717958647692));
  CHECK(real("scale > 0.1 ? 1 : 2") == 1);
  CHECK(real("0.5 && c || !c") == 1);
  CHECK(real("min(a, 2.5) + max(a, 2.5)") == 5.5);
  CHECK(real("a <= 3 == (b >= 5) != (a != b)") == 0);
  CHECK(real("stride") == -7);
  CHECK(real("seed") == 4294967295.0);
  CHECK(std::isinf(real("1 / c")));
}

TEST_CASE("decimals are read alike in every locale") {
  const comma_locale locale;
  if (!locale.in_force()) return;
  CHECK(real("0.25 + 1.5e1") == 15.25);
  CHECK_THAT(real_refusal("1,5"), has_text("unexpected ','"));
}

TEST_CASE("real expressions refuse what only integers have") {
  CHECK_THAT(real_refusal("5 % 2"), has_text("unexpected '%'"));
  CHECK_THAT(real_refusal("1 << 2"), has_text("unexpected '<'"));
  CHECK_THAT(real_refusal("ceil_div(5, 2)"), has_text("'ceil_div' is a function of integer expressions"));
  CHECK_THAT(real_refusal("1.2.3"), has_text("'1.2.3' is not a number"));
  CHECK_THAT(real_refusal("1e999"), has_text("'1e999' is not a number"));
  CHECK_THAT(real_refusal("1e"), has_text("is not a number"));
  CHECK_THAT(real_refusal("."), has_text("'.' is not a number"));
}
