// SPDX-License-Identifier: MIT
// Which form each per-call value takes. That all forms give what the interpreter gives is tested in
// per_call_program.cpp; here it is that the interpreter is left out where it can be, and asked where it must
// be.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/parameters/per_call_compiler.hpp>

using namespace switchyard;

namespace per_call_forms {

struct call {
  static constexpr std::string_view name = "per_call_forms";
  struct arguments {
    std::int64_t w0 = 0, w1 = 0, w2 = 0, w3 = 0, w4 = 0, w5 = 0, w6 = 0, w7 = 0;
    std::int64_t w8 = 0, w9 = 0, w10 = 0;
    const void* p = nullptr;
    std::uint64_t u = 0;
    std::int32_t n = 0, k = 0;
    std::uint32_t m = 0;
    std::int16_t s = 0;
    std::uint8_t b = 0;
    float f = 0;
    double d = 0;
    std::int64_t x = 0, y = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::w0, &arguments::w1, &arguments::w2, &arguments::w3, &arguments::w4,
                         &arguments::w5, &arguments::w6, &arguments::w7, &arguments::w8, &arguments::w9,
                         &arguments::w10, &arguments::p, &arguments::u, &arguments::n, &arguments::k,
                         &arguments::m, &arguments::s, &arguments::b, &arguments::f, &arguments::d>;
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::x>(), switchyard::size_axis<&arguments::y>());
};

using action = per_call_step::action;
using from = per_call_value::source;

std::span<const field_description> call_fields() {
  return describe<call>().fields;
}

std::uint32_t field(std::string_view name) {
  for (std::uint32_t i = 0; i < call_fields().size(); ++i) {
    if (call_fields()[i].name == name) return i;
  }
  throw std::runtime_error{"no such field"};
}

std::uint32_t offset_of(std::string_view name) {
  return call_fields()[field(name)].offset;
}

expression parse(const std::string& text) {
  scope names;
  for (std::uint32_t i = 0; i < call_fields().size(); ++i)
    names.add(call_fields()[i].name, {symbol::source::field, i, 0, 0, false});
  names.add("x", {symbol::source::axis, 0, 0, 0, false});
  names.add("y", {symbol::source::axis, 1, 0, 0, false});
  return expression::parse(text, names);
}

/// Values of expressions and of arguments, in the order in which they were added.
class values {
 public:
  values& add(const std::string& text, value_kind kind, std::uint32_t to) {
    expressions_.push_back(std::make_shared<const expression>(parse(text)));
    per_call_.push_back({from::integer, kind, to, 0, expressions_.back().get()});
    return *this;
  }
  values& add_field(std::string_view name, std::uint32_t to) {
    per_call_.push_back({from::field, call_fields()[field(name)].kind, to, field(name), nullptr});
    return *this;
  }
  values& add_buffer(std::uint32_t buffer, std::uint32_t to) {
    per_call_.push_back({from::workspace, value_kind::pointer, to, buffer, nullptr});
    return *this;
  }

  /// With x = 3.
  [[nodiscard]] std::unique_ptr<per_call_program> compile() const {
    const std::array<axis_value, 1> axes{axis_value{0, 3}};
    return detail::per_call_compiler{per_call_, call_fields()}.compile(axes, 1, {});
  }

 private:
  std::vector<std::shared_ptr<const expression>> expressions_;
  std::vector<per_call_value> per_call_;
};

/// The one step of an expression.
per_call_step step_of(const std::string& text, value_kind kind) {
  const auto program = values{}.add(text, kind, 16).compile();
  INFO(text);
  REQUIRE(program->steps.size() == 1);
  CHECK(program->steps[0].to == 16);
  CHECK(program->steps[0].kind == kind);
  return program->steps[0];
}

/// Eleven moves that have nothing to do with what a test is about.
values with_moves() {
  values out;
  for (std::uint32_t i = 0; i < 11; ++i) out.add_field("w" + std::to_string(i), 1000 + 16 * i);
  return out;
}

TEST_CASE("an argument as a parameter is copied, narrowed, or widened with its sign") {
  struct sample {
    const char* argument;
    value_kind kind;
    action does;
  };
  for (const sample& given : std::initializer_list<sample>{
           {"w0", value_kind::i64, action::copy},       {"w0", value_kind::pointer, action::copy},
           {"w0", value_kind::u64, action::narrow},     {"w0", value_kind::i32, action::narrow},
           {"w0", value_kind::u8, action::narrow},      {"p", value_kind::pointer, action::copy},
           {"p", value_kind::i64, action::copy},        {"u", value_kind::u64, action::narrow},
           {"u", value_kind::i64, action::copy},        {"n", value_kind::i32, action::copy},
           {"n", value_kind::i64, action::minimum},     {"n", value_kind::u32, action::minimum},
           {"n", value_kind::pointer, action::minimum}, {"m", value_kind::u32, action::copy},
           {"m", value_kind::i32, action::minimum},     {"s", value_kind::i16, action::copy},
           {"s", value_kind::u16, action::minimum},     {"b", value_kind::u8, action::copy},
           {"b", value_kind::i8, action::minimum},      {"f", value_kind::f32, action::interpret},
           {"d", value_kind::i64, action::interpret}}) {
    INFO(given.argument << " as kind " << static_cast<int>(given.kind));
    for (const char* const divided : {"", " / 1", " * 1"}) {
      const per_call_step step = step_of(std::string{given.argument} + divided, given.kind);
      CHECK(step.does == given.does);
      if (given.does == action::interpret) continue;
      CHECK(step.from == offset_of(given.argument));
      if (given.does == action::copy) CHECK(step.count == size_of(given.kind));
      if (given.does == action::minimum) CHECK(step.operand == INT64_MAX);
      if (given.does != action::copy) CHECK(step.loaded == call_fields()[field(given.argument)].kind);
    }
  }
}

TEST_CASE("what the type leaves of an expression may read no argument") {
  for (const char* const text : {"x != 0 ? y : w0", "x != 0 ? y / 8 : w0", "x != 0 ? min(y, 7) : w0"}) {
    INFO(text);
    CHECK(step_of(text, value_kind::i64).does == action::interpret);
  }
}

TEST_CASE("a 64-bit argument over a power of two is a shift, another quotient is not") {
  const auto shifts = [](const std::string& text, value_kind kind = value_kind::i64) {
    const per_call_step step = step_of(text, kind);
    if (step.does != action::shift) return -1;
    CHECK(step.count == 1);
    return static_cast<int>(step.shift);
  };
  CHECK(shifts("w1 / 2") == 1);
  CHECK(shifts("w1 / 8") == 3);
  CHECK(shifts("w1 / (1 << 62)") == 62);
  CHECK(shifts("u / 8", value_kind::pointer) == 3);
  CHECK(shifts("p / 16") == 4);
  CHECK(shifts("w1 / 8", value_kind::u64) == -1);  // a negative one does not fit
  CHECK(shifts("w1 / 8", value_kind::i32) == -1);
  CHECK(shifts("n / 8") == -1);
  CHECK(shifts("f / 8") == -1);
  CHECK(shifts("d / 8") == -1);
  CHECK(shifts("w1 / 8 + 3") == -1);
  CHECK(shifts("w1 / 6") == -1);
  CHECK(shifts("w1 / 0") == -1);
  CHECK(shifts("w1 / (-8)") == -1);
  CHECK(shifts("w1 / (-9223372036854775807 - 1)") == -1);
  CHECK(shifts("w1 * 8") == -1);
  CHECK(shifts("w1 % 8") == -1);
  CHECK(shifts("w1 / w2") == -1);
  CHECK(step_of("w1 / 8", value_kind::i64).from == offset_of("w1"));
}

TEST_CASE("the minimum of an argument and a constant is a step, with the argument's own kind") {
  const per_call_step wide = step_of("min(w2, 77)", value_kind::i32);
  CHECK(wide.does == action::minimum);
  CHECK(wide.operand == 77);
  CHECK(wide.loaded == value_kind::i64);
  CHECK(wide.from == offset_of("w2"));
  CHECK(step_of("min(n, -5)", value_kind::i64).operand == -5);
  CHECK(step_of("min(n, 1)", value_kind::i32).does == action::minimum);
  CHECK(step_of("max(n, 7)", value_kind::i32).does == action::interpret);
  CHECK(step_of("min(n, m)", value_kind::i32).does == action::interpret);
  CHECK(step_of("min(n, y)", value_kind::i32).does == action::interpret);
  CHECK(step_of("min(f, 7)", value_kind::i32).does == action::interpret);
  CHECK(step_of("min(n, 7) * 3", value_kind::i32).does == action::interpret);
}

TEST_CASE("a limit that negative arguments do not have is a step; what only looks like it is not") {
  const per_call_step limit = step_of("n < 0 ? 9 : min(n, 9)", value_kind::i32);
  CHECK(limit.does == action::limit);
  CHECK(limit.operand == 9);
  CHECK(limit.loaded == value_kind::i32);
  CHECK(limit.from == offset_of("n"));
  CHECK(step_of("w0 < 0 ? -9 : min(w0, -9)", value_kind::i64).does == action::limit);
  for (const char* const text :
       {"n < 1 ? 9 : min(n, 9)", "n <= 0 ? 9 : min(n, 9)", "n < 0 ? 8 : min(n, 9)", "n < 0 ? 9 : min(n, 8)",
        "n < 0 ? 9 : max(n, 9)", "n < 0 ? 9 : min(k, 9)", "k < 0 ? 9 : min(n, 9)", "n < k ? 9 : min(n, 9)",
        "n < 0 ? k : min(n, 9)", "n < 0 ? k : min(n, 0)", "(n < 0 ? 9 : min(n, 9)) + 1",
        "y < 0 ? 9 : min(w1, 9)", "w1 < 0 ? 9 : min(y, 9)", "n < 0 ? 9 : min(n, k)", "f < 0 ? 9 : min(f, 9)",
        "n < 0 ? 9 : min(n, 9) + 1", "(n < 0 ? 9 : n) + 9"}) {
    INFO(text);
    CHECK(step_of(text, value_kind::i64).does == action::interpret);
  }
}

TEST_CASE("flags of 64-bit arguments that are not zero are one step") {
  struct term {
    const char* argument;
    std::int64_t weight;
  };
  const auto check = [](const std::string& text, std::int64_t sum, const std::vector<term>& terms) {
    INFO(text);
    const auto program = values{}.add(text, value_kind::i32, 16).compile();
    REQUIRE(program->steps.size() == 1);
    const per_call_step& step = program->steps[0];
    REQUIRE(step.does == action::flags);
    CHECK(step.operand == sum);
    CHECK(step.count == terms.size());
    REQUIRE(step.from + step.count == program->terms.size());
    for (std::size_t i = 0; i < terms.size(); ++i) {
      CHECK(program->terms[step.from + i].from == offset_of(terms[i].argument));
      CHECK(program->terms[step.from + i].weight == terms[i].weight);
    }
  };
  check("w0 != 0", 0, {{"w0", 1}});
  check("(p != 0) + 2 * (u != 0)", 0, {{"p", 1}, {"u", 2}});
  check("(p != 0) * 4 + (u != 0) * 8", 0, {{"p", 4}, {"u", 8}});
  check("x + 4 * (w1 != 0)", 3, {{"w1", 4}});
  check("3 + (w0 != 0) * 4", 3, {{"w0", 4}});
  check("7 + (w1 != 0) + 5 + (w2 != 0) * 6 + 11", 23, {{"w1", 1}, {"w2", 6}});
  check("5 * (w1 != 0) + 2 * x", 6, {{"w1", 5}});
  check("(-2) + (-3) * (w1 != 0)", -2, {{"w1", -3}});
  check("(1 << 40) + (1 << 40) * (w1 != 0)", std::int64_t{1} << 40, {{"w1", std::int64_t{1} << 40}});
  check("(w1 != 0) * (-(1 << 40)) + (-(1 << 40))", -(std::int64_t{1} << 40),
        {{"w1", -(std::int64_t{1} << 40)}});

  for (const char* const text : {"y * (w0 != 0) + 1",
                                 "n * (w0 != 0)",
                                 "3 * (n != 0) + 1",
                                 "(w0 != 0) + 5 * (n != 0)",
                                 "(y != 0) + (w0 != 0)",
                                 "(w0 != 0) + (y != 0)",
                                 "(n != 0) + 1",
                                 "(d != 0) + 1",
                                 "(w0 != 1) + 1",
                                 "(w0 == 0) + 1",
                                 "(w0 != w1) + 1",
                                 "(w0 != 0) - 1",
                                 "(w0 != 0) + y",
                                 "y + (w0 != 0)",
                                 "(w0 != 0) * y",
                                 "(w0 != 0) - (w1 != 0)",
                                 "(w0 != 0) * (w1 != 0)",
                                 "w0 + 1",
                                 "((1 << 40) + 1) * (w0 != 0)",
                                 "(-(1 << 40) - 1) * (w0 != 0)",
                                 "((1 << 40) + 1) + (w0 != 0)",
                                 "(w0 != 0) + ((1 << 40) + 1)",
                                 "(w0 != 0) * ((1 << 40) + 1)",
                                 "(w0 != 0) / 2",
                                 "3 - (w0 != 0)",
                                 "3 * (w0 != 0) - 1",
                                 "(w0 != 0) + 2 * n"}) {
    INFO(text);
    CHECK(step_of(text, value_kind::i32).does == action::interpret);
  }
}

TEST_CASE("terms of several flags stand one behind the other") {
  const auto program = values{}
                           .add("(w0 != 0) + 2 * (w1 != 0)", value_kind::i32, 0)
                           .add("4 * (w2 != 0)", value_kind::i32, 8)
                           .compile();
  REQUIRE(program->steps.size() == 2);
  CHECK(program->steps[0].from == 0);
  CHECK(program->steps[0].count == 2);
  CHECK(program->steps[1].from == 2);
  CHECK(program->steps[1].count == 1);
  CHECK(program->steps[1].value == 1);
  REQUIRE(program->terms.size() == 3);
  CHECK(program->terms[2].from == offset_of("w2"));
}

TEST_CASE("what axes decide is written when the plan is made, where it fits") {
  const auto program = values{}
                           .add("x != 0 ? x * 100 : w0", value_kind::i32, 4)
                           .add("x != 0 ? x * 100 : w0", value_kind::u8, 8)
                           .add("x != 0 ? -x : w0", value_kind::u64, 16)
                           .compile();
  REQUIRE(program->constants.size() == 1);
  CHECK(program->constants[0].value == 300);
  CHECK(program->constants[0].kind == value_kind::i32);
  CHECK(program->constants[0].to == 4);
  // The others are errors of each call: the interpreter says so.
  REQUIRE(program->steps.size() == 2);
  CHECK(program->steps[0].does == action::interpret);
  CHECK(program->steps[0].value == 1);
  CHECK(program->steps[1].does == action::interpret);
  CHECK(program->axes == std::vector<std::int64_t>{3});
}

TEST_CASE("a program is told by the values of the axes that are read, the last of those known") {
  const std::array<axis_value, 3> axes{axis_value{0, 3}, axis_value{1, 70}, axis_value{0, 5}};
  CHECK(detail::per_call_compiler{{}, call_fields()}.compile(axes, 2, {})->axes ==
        std::vector<std::int64_t>{70, 5});
  CHECK(detail::per_call_compiler{{}, call_fields()}.compile(axes, 0, {})->axes.empty());
}

TEST_CASE("only neighbours in the arguments and in the parameter block become one step") {
  const auto steps = [](const values& of) { return of.compile()->steps.size(); };
  CHECK(steps(values{}.add_field("w0", 0).add_field("w1", 8)) == 1);
  CHECK(steps(values{}.add_field("w0", 0).add_field("w1", 16)) == 2);
  CHECK(steps(values{}.add_field("w0", 0).add_field("w2", 8)) == 2);
  CHECK(steps(values{}.add_field("w1", 0).add_field("w0", 8)) == 2);
  CHECK(steps(values{}.add_field("n", 0).add_field("k", 4)) == 1);
  CHECK(steps(values{}.add("w0 / 8", value_kind::i64, 0).add("w1 / 8", value_kind::i64, 8)) == 1);
  CHECK(steps(values{}.add("w0 / 8", value_kind::i64, 0).add("w1 / 4", value_kind::i64, 8)) == 2);
  CHECK(steps(values{}.add("w0 / 8", value_kind::i64, 0).add("w2 / 8", value_kind::i64, 8)) == 2);
  CHECK(steps(values{}.add("w0 / 8", value_kind::i64, 0).add("w1 / 8", value_kind::i64, 16)) == 2);
  CHECK(steps(values{}.add("w0 / 8", value_kind::i64, 0).add_field("w1", 8)) == 2);
  CHECK(steps(values{}.add("min(n, 4)", value_kind::i32, 0).add("min(k, 4)", value_kind::i32, 4)) == 2);
  CHECK(steps(values{}.add_buffer(0, 0).add_buffer(8, 8)) == 2);  // buffers have numbers, not places
  // Eight flags end where the terms, not the arguments, do.
  CHECK(steps(values{}
                  .add("(w0 != 0) + (w1 != 0) + (w2 != 0) + (w3 != 0) + (w4 != 0) + (w5 != 0) + (w6 != 0) + "
                       "(w7 != 0)",
                       value_kind::i64, 0)
                  .add_field("w1", 8)) == 2);
  const auto three = values{}
                         .add("w0 / 8", value_kind::i64, 0)
                         .add("w1 / 8", value_kind::i64, 8)
                         .add("w2 / 8", value_kind::i64, 16);
  CHECK(three.compile()->steps.front().count == 3);
}

TEST_CASE("moves replace steps where there are three of them or more") {
  for (const std::uint32_t count : {2U, 3U}) {
    values some;
    for (std::uint32_t i = 0; i < count; ++i) some.add_field("w" + std::to_string(i), 16 * i);
    const auto program = some.compile();
    CHECK(program->moves.all.size() == (count < 3 ? 0U : 3U));
    CHECK(program->steps.size() == (count < 3 ? 2U : 0U));
    CHECK_FALSE(program->is_empty());
  }
  // Limits count as well.
  values both;
  for (std::uint32_t i = 0; i < 2; ++i) both.add_field("w" + std::to_string(i), 16 * i);
  both.add("min(n, 4)", value_kind::i32, 200);
  const auto program = both.compile();
  CHECK(program->moves.all.size() == 2);
  CHECK(program->moves.limits.size() == 1);
  CHECK(program->steps.empty());
}

TEST_CASE("a long copy becomes the longest moves that it has room for") {
  values all;
  for (std::uint32_t i = 0; i < 11; ++i) all.add_field("w" + std::to_string(i), 8 * i);  // 88 bytes
  all.add_field("n", 96);
  // These are no neighbours.
  for (std::uint32_t i = 0; i < 5; ++i) all.add_field("p", 200 + 16 * i);
  const auto program = all.compile();
  const per_call_moves& moves = program->moves;
  CHECK(moves.ends == std::array<std::uint32_t, 6>{1, 2, 8, 9, 9, 9});
  REQUIRE(moves.all.size() == 9);
  CHECK(moves.all[0].from == offset_of("w0"));
  CHECK(moves.all[0].to == 0);
  CHECK(moves.all[1].from == offset_of("w8"));
  CHECK(moves.all[1].to == 64);
  CHECK(moves.all[2].from == offset_of("w10"));
  CHECK(moves.all[2].to == 80);
  CHECK(moves.all[8].from == offset_of("n"));
  CHECK(moves.all[8].to == 96);
}

TEST_CASE("narrow and short values that a move cannot have stay steps") {
  const auto steps_left = [](const std::string& text, value_kind kind) {
    const auto program = with_moves().add(text, kind, 16).compile();
    CHECK(program->moves.all.size() >= 11);
    return program->steps.size();
  };
  CHECK(steps_left("w0", value_kind::i32) == 0);
  CHECK(steps_left("w0", value_kind::u32) == 1);
  CHECK(steps_left("w0", value_kind::i16) == 1);
  CHECK(steps_left("u", value_kind::i32) == 1);  // whose greatest values would look negative
  CHECK(steps_left("s", value_kind::i16) == 1);  // two bytes
  CHECK(steps_left("b", value_kind::u8) == 1);
  CHECK(steps_left("w0 / 8", value_kind::i64) == 1);
  CHECK(steps_left("min(n, 9)", value_kind::i32) == 0);
  CHECK(steps_left("min(n, 9)", value_kind::i64) == 1);
  CHECK(steps_left("min(m, 9)", value_kind::i32) == 1);
  CHECK(steps_left("min(w0, 9)", value_kind::i32) == 1);
  CHECK(steps_left("min(n, (1 << 31) - 1)", value_kind::i32) == 0);
  CHECK(steps_left("min(n, 1 << 31)", value_kind::i32) == 1);
  CHECK(steps_left("min(n, -9)", value_kind::i32) == 0);
  CHECK(steps_left("n < 0 ? 9 : min(n, 9)", value_kind::i32) == 0);
  CHECK(steps_left("n < 0 ? 0 : min(n, 0)", value_kind::i32) == 0);
  CHECK(steps_left("n < 0 ? -9 : min(n, -9)", value_kind::i32) == 1);
  CHECK(steps_left("w0 != 0", value_kind::i32) == 1);
}

TEST_CASE("an expression is an argument alone where it is divided or multiplied by nothing but 1") {
  const auto alone = [](const char* text) { return detail::per_call_compiler::field_alone(parse(text)); };
  CHECK(alone("w3") == field("w3"));
  CHECK(alone("w3 / 1") == field("w3"));
  CHECK(alone("w3 * 1 / 1") == field("w3"));
  for (const char* const text :
       {"w3 / 2", "w3 * 2", "w3 + 1", "w3 - 1", "w3 / w4", "1 / w3", "y", "-w3", "7"}) {
    INFO(text);
    CHECK(alone(text) == no_index);
  }
  CHECK(detail::per_call_compiler::axis_alone(parse("y")) == 1);
  CHECK(detail::per_call_compiler::axis_alone(parse("x")) == 0);
  for (const char* const text : {"y + 1", "w3", "5", "y * x"}) {
    INFO(text);
    CHECK(detail::per_call_compiler::axis_alone(parse(text)) == no_index);
  }
}

}  // namespace per_call_forms
