// SPDX-License-Identifier: MIT
// Where values begin and end: arguments read as integers and reals, real operators at run time, letters,
// columns.
#include <array>
#include <catch.hpp>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/expression/evaluation.hpp>
#include <switchyard/expression/scanner.hpp>

#include "sample_names.hpp"

using namespace switchyard;

namespace expression_values {

template <class Value>
std::int64_t integer_of(Value value, value_kind kind) {
  std::array<std::byte, 8> memory{};
  std::memcpy(memory.data(), &value, sizeof value);
  return detail::load_integer(memory.data(), kind);
}

template <class Value>
double real_of(Value value, value_kind kind) {
  std::array<std::byte, 8> memory{};
  std::memcpy(memory.data(), &value, sizeof value);
  return detail::load_real(memory.data(), kind);
}

TEST_CASE("real arguments become integers towards zero, and 0 where they do not fit") {
  CHECK(integer_of(2.9F, value_kind::f32) == 2);
  CHECK(integer_of(-2.9F, value_kind::f32) == -2);
  CHECK(integer_of(9.1e18F, value_kind::f32) == static_cast<std::int64_t>(9.1e18F));
  CHECK(integer_of(-9.1e18F, value_kind::f32) == static_cast<std::int64_t>(-9.1e18F));
  CHECK(integer_of(2.5, value_kind::f64) == 2);
  CHECK(integer_of(9.1e18, value_kind::f64) == 9'100'000'000'000'000'000);
  CHECK(integer_of(-9.1e18, value_kind::f64) == -9'100'000'000'000'000'000);
  for (const double sign : {1.0, -1.0}) {
    for (const double large : {1e19, 1e30, HUGE_VAL}) {
      CHECK(integer_of(sign * large, value_kind::f64) == 0);
      CHECK(integer_of(static_cast<float>(sign * large), value_kind::f32) == 0);
    }
  }
  CHECK(integer_of(std::numeric_limits<double>::quiet_NaN(), value_kind::f64) == 0);
  CHECK(integer_of(std::numeric_limits<float>::quiet_NaN(), value_kind::f32) == 0);
}

TEST_CASE("arguments of every kind become reals") {
  CHECK(real_of(0.5F, value_kind::f32) == 0.5);
  CHECK(real_of(1e300, value_kind::f64) == 1e300);
  CHECK(real_of(std::int8_t{-3}, value_kind::i8) == -3);
  CHECK(real_of(std::uint8_t{250}, value_kind::u8) == 250);
  CHECK(real_of(std::int64_t{1} << 40, value_kind::i64) == std::ldexp(1.0, 40));
}

TEST_CASE("every real operator computes at run time what it computes when folded") {
  // a = 3, b = 5, c = 0: by name they are read at each evaluation, as numbers they are folded.
  const std::vector<std::pair<std::string, double>> cases{
      {"a + b", 8},     {"a - b", -2},    {"a * b", 15},    {"a / b", 0.6},     {"a < b", 1},
      {"b < a", 0},     {"a < 3", 0},     {"a <= b", 1},    {"a <= 3", 1},      {"b <= a", 0},
      {"b > a", 1},     {"a > 3", 0},     {"a > b", 0},     {"b >= a", 1},      {"a >= 3", 1},
      {"a >= b", 0},    {"a == 3", 1},    {"a == b", 0},    {"a != b", 1},      {"a != 3", 0},
      {"min(a, b)", 3}, {"min(b, a)", 3}, {"max(a, b)", 5}, {"max(b, a)", 5},   {"-a", -3},
      {"!a", 0},        {"!c", 1},        {"a && b", 1},    {"a && c", 0},      {"c && a", 0},
      {"c || a", 1},    {"a || c", 1},    {"c || c", 0},    {"sqrt(a + 1)", 2}, {"log2(b + a)", 3},
      {"exp2(a)", 8},   {"a ? b : 7", 5}, {"c ? b : 7", 7}, {"a - b - a", -5},  {"0.5 * a", 1.5}};
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(sample_names::real(text) == expected);
    std::string folded = text;
    for (std::size_t at = 0; at < folded.size(); ++at) {
      const bool in_word =
          (at > 0 && std::isalnum(static_cast<unsigned char>(folded[at - 1])) != 0) ||
          (at + 1 < folded.size() && std::isalnum(static_cast<unsigned char>(folded[at + 1])) != 0);
      if (in_word) continue;
      if (folded[at] == 'a') folded[at] = '3';
      if (folded[at] == 'b') folded[at] = '5';
      if (folded[at] == 'c') folded[at] = '0';
    }
    CHECK(sample_names::real(folded) == expected);
  }
  CHECK(sample_names::real("2 && 3") == 1);
  CHECK(sample_names::real("0 || 3") == 1);
  CHECK(sample_names::real("2 || c") == 1);
  CHECK(sample_names::real("0 && a") == 0);
  CHECK(sample_names::real("1 && a") == 1);
}

TEST_CASE("letters are those of the alphabet and the underscore, digits the ten") {
  using scanner = detail::expression_scanner;
  for (const char letter : {'a', 'z', 'A', 'Z', 'm', '_'}) CHECK(scanner::is_letter(letter));
  for (const char other : {'`', '{', '@', '[', '0', ' ', '\xc3', '\x7f'})
    CHECK_FALSE(scanner::is_letter(other));
  for (const char digit : {'0', '5', '9'}) CHECK(scanner::is_digit(digit));
  for (const char other : {'/', ':', 'a'}) CHECK_FALSE(scanner::is_digit(other));
}

TEST_CASE("a token is not a longer one's beginning, and only then is it left") {
  using scanner = detail::expression_scanner;
  const auto takes = [](const char* text, const char* token) {
    scanner scan{text};
    return scan.take(token);
  };
  CHECK_FALSE(takes("!=", "!"));
  CHECK(takes("!a", "!"));
  CHECK(takes("-=", "-"));
  CHECK(takes("*=", "*"));
  CHECK_FALSE(takes("<=", "<"));
  CHECK_FALSE(takes("<<", "<"));
  CHECK(takes("<>", "<"));
  CHECK_FALSE(takes(">>", ">"));
  CHECK_FALSE(takes(">=", ">"));
  CHECK(takes(">", ">"));
  CHECK(takes("\t <", "<"));
}

TEST_CASE("a real number may have signs in its exponent alone") {
  detail::expression_scanner minus{"1-2"};
  CHECK(minus.real() == 1);
  CHECK(minus.position() == 1);
  detail::expression_scanner plus{"1e+2+3"};
  CHECK(plus.real() == 100);
  CHECK(plus.position() == 4);
  detail::expression_scanner upper{"1E-1-1"};
  CHECK(upper.real() == 0.1);
  CHECK(upper.position() == 4);
  CHECK_THAT(sample_names::refusal("a + 9223372036854775808"),
             has_text("column 23: the number does not fit 64 bits"));
  CHECK_THAT(sample_names::real_refusal("a + 1.2.3"), has_text("column 5: '1.2.3' is not a number"));
}

TEST_CASE("what an expression reads is known without evaluating it") {
  using namespace sample_names;
  CHECK(expression::parse("a + warp_size", names()).reads_attributes());
  CHECK_FALSE(expression::parse("a + b", names()).reads_attributes());
  CHECK(expression::parse("b * 2", names()).reads_axis(1));
  CHECK_FALSE(expression::parse("b * 2", names()).reads_axis(0));
  CHECK_FALSE(expression::parse("stride", names()).reads_axis(1));
  CHECK(expression::parse("stride + a", names()).reads_fields());
  CHECK_FALSE(expression::parse("a", names()).reads_fields());
  CHECK(expression{7}.is_constant());
  CHECK(expression{}.evaluate(values()).value == 0);
  CHECK(expression{}.is_constant());
  CHECK_FALSE(expression::parse("a", names()).is_constant());
}

}  // namespace expression_values
