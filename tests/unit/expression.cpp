#include <catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/parse.hpp>

#include "comma_locale.hpp"

using namespace switchyard;

namespace {

constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
constexpr auto highest = std::numeric_limits<std::int64_t>::max();

struct call {
  float scale = 0.125F;
  std::int32_t stride = -7;
  std::uint8_t flags = 200;
  double big = 1e300;
  std::uint32_t seed = 0xffffffff;
  std::int16_t small = -300;
  std::uint16_t half_bits = 0x3c00;
  std::int8_t tiny = -128;
  std::int64_t wide = lowest;
};
const std::vector<field_description> call_fields{
    {"scale", value_kind::f32, offsetof(call, scale)},    {"stride", value_kind::i32, offsetof(call, stride)},
    {"flags", value_kind::u8, offsetof(call, flags)},     {"big", value_kind::f64, offsetof(call, big)},
    {"seed", value_kind::u32, offsetof(call, seed)},      {"small", value_kind::i16, offsetof(call, small)},
    {"bits", value_kind::f16, offsetof(call, half_bits)}, {"tiny", value_kind::i8, offsetof(call, tiny)},
    {"wide", value_kind::i64, offsetof(call, wide)}};

scope names() {
  scope out;
  out.add("pi", {symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  out.add_enumerator("first", 0);
  out.add_enumerator("second", 1);
  out.add_enumerator("clash", 1);
  out.add_enumerator("clash", 2);
  out.add_enumerator("second", 1);
  for (std::uint32_t i = 0; i < call_fields.size(); ++i) {
    out.add(call_fields[i].name, {symbol::source::field, i, 0, 0, false});
  }
  for (std::uint32_t i = 0; i < 6; ++i) {
    out.add(std::string(1, static_cast<char>('a' + i)), {symbol::source::axis, i, 0, 0, false});
  }
  out.add("warp_size", {symbol::source::attribute, 1, 0, 0, false});
  out.add_constant("block_m", 64);
  return out;
}

const std::vector<std::int64_t> axis_values{3, 5, 0, -2, 1'000'000'007, highest};
const std::vector<std::int64_t> attribute_values_here{132, 32};

evaluation values() {
  static const call arguments;
  return {axis_values, attribute_values_here, call_fields, reinterpret_cast<const std::byte*>(&arguments)};
}

integer_result run(const std::string& text) {
  return expression::parse(text, names()).evaluate(values());
}
std::int64_t value(const std::string& text) {
  const integer_result out = run(text);
  INFO(text);
  CHECK(to_string(out.why) == "none");
  return out.value;
}
double real(const std::string& text) {
  return expression::parse_real(text, names()).evaluate_real(values());
}
std::string refusal(const std::string& text) {
  try {
    (void)expression::parse(text, names());
  } catch (const expression_error& problem) {
    return problem.what();
  }
  return {};
}
std::string real_refusal(const std::string& text) {
  try {
    (void)expression::parse_real(text, names());
  } catch (const expression_error& problem) {
    return problem.what();
  }
  return {};
}

}  // namespace

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

TEST_CASE("every operator computes at run time what it computes when folded") {
  struct operation {
    const char* text;
    std::int64_t expected;
  };
  // a = 3, b = 5, c = 0, d = -2
  for (const operation& each : {operation{"a + b", 8},
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
                                {"f >> 62", 1}}) {
    CHECK(value(each.text) == each.expected);
    // The same text with the axes' values in place of one-letter names.
    std::string folded;
    const std::string text = each.text;
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
    CHECK(constant_expression.evaluate({}).value == each.expected);
  }
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
  CHECK(value("f + 0") == highest);
  CHECK(value("ceil_div(f, 2)") == (std::int64_t{1} << 62));
  CHECK(value("wide >> 63") == -1);
  CHECK(value("next_pow2(1 << 62)") == (std::int64_t{1} << 62));
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

TEST_CASE("wrong text is refused with its column and what is wrong") {
  CHECK(refusal("seqlen * 2") == "'seqlen * 2': column 1: 'seqlen' names nothing");
  CHECK(refusal("2 * warpsize") ==
        "'2 * warpsize': column 5: 'warpsize' names nothing; did you mean 'warp_size'?");
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
  CHECK_THAT(refusal("sqrt(4)"), has_text("no function 'sqrt'"));
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
  CHECK_THAT(real_refusal("ceil_div(5, 2)"), has_text("no function 'ceil_div'"));
  CHECK_THAT(real_refusal("1.2.3"), has_text("'1.2.3' is not a number"));
  CHECK_THAT(real_refusal("1e999"), has_text("'1e999' is not a number"));
  CHECK_THAT(real_refusal("1e"), has_text("is not a number"));
  CHECK_THAT(real_refusal("."), has_text("'.' is not a number"));
}

TEST_CASE("later names hide earlier ones, and truncate forgets them") {
  scope some = names();
  const std::size_t before = some.size();
  some.add_constant("a", 77);
  CHECK(expression::parse("a", some).evaluate(values()).value == 77);
  some.truncate(before);
  CHECK(expression::parse("a", some).evaluate(values()).value == 3);
}

// Random trees, against an evaluator that walks the tree in 128 bits.
namespace {

__extension__ using wide = __int128;

struct outcome {
  std::int64_t value = 0;
  fault why = fault::none;
};

struct tree {
  std::string op;  // an operator's or function's name; "" for a leaf
  std::string leaf;
  std::int64_t leaf_value = 0;
  std::vector<tree> parts;

  [[nodiscard]] std::string text() const {
    if (op.empty()) return leaf;
    if (op == "?") return "(" + parts[0].text() + " ? " + parts[1].text() + " : " + parts[2].text() + ")";
    if (op == "neg") return "(-" + parts[0].text() + ")";
    if (op == "!") return "(!" + parts[0].text() + ")";
    if (op[0] >= 'a' && op[0] <= 'z') {
      return op + "(" + parts[0].text() + (parts.size() > 1 ? ", " + parts[1].text() : "") + ")";
    }
    return "(" + parts[0].text() + " " + op + " " + parts[1].text() + ")";
  }

  [[nodiscard]] outcome evaluate() const {
    if (op.empty()) return {leaf_value, fault::none};
    const outcome first = parts[0].evaluate();
    if (first.why != fault::none) return first;
    if (op == "?") return parts[first.value != 0 ? 1 : 2].evaluate();
    if (op == "&&" || op == "||") {
      if ((first.value != 0) == (op == "||")) return {first.value != 0, fault::none};
      const outcome second = parts[1].evaluate();
      return second.why != fault::none ? second : outcome{second.value != 0, fault::none};
    }
    const wide a = first.value;
    const auto fit = [](wide exact) {
      return exact < lowest || exact > highest ? outcome{0, fault::overflow}
                                               : outcome{static_cast<std::int64_t>(exact), fault::none};
    };
    if (op == "neg") return fit(-a);
    if (op == "!") return {a == 0, fault::none};
    if (op == "next_pow2") {
      wide power = 1;
      while (power < a) power *= 2;
      return fit(power);
    }
    const outcome second = parts[1].evaluate();
    if (second.why != fault::none) return second;
    const wide b = second.value;
    if (op == "+") return fit(a + b);
    if (op == "-") return fit(a - b);
    if (op == "*") return fit(a * b);
    if (op == "<") return {a < b, fault::none};
    if (op == "<=") return {a <= b, fault::none};
    if (op == ">") return {a > b, fault::none};
    if (op == ">=") return {a >= b, fault::none};
    if (op == "==") return {a == b, fault::none};
    if (op == "!=") return {a != b, fault::none};
    if (op == "min") return fit(a < b ? a : b);
    if (op == "max") return fit(a < b ? b : a);
    if (op == "<<") {
      if (b < 0 || b > 62) return {0, fault::out_of_range};
      return fit(a * (wide{1} << static_cast<int>(b)));
    }
    if (op == ">>") {
      if (b < 0 || b > 63) return {0, fault::out_of_range};
      wide quotient = a / (wide{1} << static_cast<int>(b));
      if (a < 0 && a % (wide{1} << static_cast<int>(b)) != 0) --quotient;
      return fit(quotient);
    }
    if (b == 0) return {0, fault::division_by_zero};
    if (op == "/") return fit(a / b);
    if (op == "%") return a == lowest && b == -1 ? outcome{0, fault::overflow} : fit(a % b);
    if (a < 0 || b < 0) return {0, fault::out_of_range};
    const wide blocks = (a + b - 1) / b;
    return fit(op == "ceil_div" ? blocks : blocks * b);
  }
};

tree random_tree(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> binary{"+",   "-",        "*",        "/",  "%",  "<<", ">>", "<",
                                               "<=",  ">",        ">=",       "==", "!=", "&&", "||", "min",
                                               "max", "ceil_div", "round_up", "&&", "||", "+",  "*"};
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  tree out;
  if (depth == 0 || below(6) == 0) {
    if (below(2) == 0) {
      const std::size_t axis = below(axis_values.size());
      out.leaf = std::string(1, static_cast<char>('a' + axis));
      out.leaf_value = axis_values[axis];
      return out;
    }
    static const std::vector<std::int64_t> constants{0, 1, 2, 3, 7, 31, 62, 63, 64, 4096, 1LL << 40, highest};
    out.leaf_value = constants[below(constants.size())];
    out.leaf = std::to_string(out.leaf_value);
    return out;
  }
  const std::size_t kind = below(10);
  if (kind == 0) {
    out.op = below(2) == 0 ? "neg" : "!";
  } else if (kind == 1) {
    out.op = "next_pow2";
  } else if (kind <= 3) {
    out.op = "?";
  } else {
    out.op = binary[below(binary.size())];
  }
  const std::size_t count = out.op == "?"                                               ? 3
                            : out.op == "neg" || out.op == "!" || out.op == "next_pow2" ? 1
                                                                                        : 2;
  for (std::size_t i = 0; i < count; ++i) out.parts.push_back(random_tree(random, depth - 1));
  return out;
}

}  // namespace

TEST_CASE("random expressions evaluate as their trees do in 128 bits, folded or not") {
  std::mt19937_64 random{20'26};
  const scope known = names();
  int faulty = 0;
  int sound = 0;
  int refused = 0;
  for (int i = 0; i < 40'000; ++i) {
    const tree each = random_tree(random, 1 + i % 5);
    const std::string text = each.text();
    if (text.size() > expression::max_text) continue;
    const outcome expected = each.evaluate();
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
