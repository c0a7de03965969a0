// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/expression/build_joint_program.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/joint_program.hpp>

#include "environment.hpp"
#include "random_tree.hpp"
#include "sample_names.hpp"

using namespace switchyard;
using namespace sample_names;

namespace {

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

joint_program compile(const std::vector<std::string>& texts) {
  joint_program_builder builder;
  for (const std::string& text : texts) (void)builder.add(expression::parse(text, names()));
  return builder.build();
}

/// A value that exercises edges: small, large, zero and negative.
std::int64_t random_value(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return static_cast<std::int64_t>(random() % 5) - 2;
    case 1:
      return static_cast<std::int64_t>(random());
    case 2:
      return random() % 2 == 0 ? lowest : highest;
    default:
      return static_cast<std::int64_t>(random() % 100'000);
  }
}

}  // namespace

TEST_CASE("expressions compiled together have the values and faults that they have alone") {
  std::mt19937_64 random{switchyard::test::seed_or(1016)};
  const scope known = names();
  int sound = 0;
  int faulty = 0;
  for (int round = 0; round < 1'500; ++round) {
    // Subtrees recur in several expressions, as the costs of one space's variants do.
    std::vector<std::string> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(random_trees::random_tree(random, 1 + i % 4).text());
    std::vector<expression> alone;
    joint_program_builder builder;
    std::vector<std::uint32_t> numbers;
    for (int i = 0; i < 12; ++i) {
      const auto part = [&] { return parts[random() % parts.size()]; };
      std::string text = random() % 3 == 0 ? part() : random_trees::random_tree(random, 3).text();
      if (random() % 2 == 0) text = joined({"(", text, " + ", part(), ")"});
      if (random() % 4 == 0) text = joined({"(", part(), " ? ", text, " : ", part(), ")"});
      if (text.size() > expression::max_text) continue;
      std::optional<expression> parsed;
      try {
        parsed = expression::parse(text, known);
      } catch (const expression_error&) {
        continue;  // it has no value whenever it is evaluated
      }
      std::vector<axis_value> told;
      for (std::uint32_t axis = 0; axis < 3; ++axis) {
        if (random() % 4 == 0) told.push_back({axis, axis_values[axis]});
      }
      alone.push_back(parsed->fold(told, attribute_values_here));
      numbers.push_back(builder.add(alone.back()));
    }
    const joint_program together = builder.build();
    for (int problem = 0; problem < 6; ++problem) {
      std::vector<std::int64_t> axes(axis_values);
      if (problem > 0) {
        for (std::int64_t& value : axes) value = random_value(random);
      }
      joint_program::values computed{together, axes};
      for (int asked = 0; asked < 16 && !alone.empty(); ++asked) {  // in any order, some of them again
        const std::size_t which = random() % alone.size();
        const integer_result expected = alone[which].evaluate({axes, {}, {}, nullptr});
        const integer_result got = computed.of(numbers[which]);
        REQUIRE(to_string(got.why) == to_string(expected.why));
        REQUIRE(got.value == expected.value);
        ++(expected.why == fault::none ? sound : faulty);
      }
    }
  }
  CHECK(sound > 10'000);
  CHECK(faulty > 10'000);
}

TEST_CASE("equal expressions have one number, and each is kept as it was") {
  joint_program_builder builder;
  CHECK(builder.add(expression::parse("a + b", names())) == 0);
  CHECK(builder.add(expression::parse("a + c", names())) == 1);
  CHECK(builder.add(expression::parse("(a + b)", names())) == 0);
  const joint_program program = builder.build();
  CHECK(program.size() == 2);
  CHECK(program.at(1) == expression::parse("a + c", names()));
}

TEST_CASE("constants, single axes and an empty program need no step") {
  const joint_program program = compile({"7", "b"});
  joint_program::values computed{program, axis_values};
  CHECK(computed.of(0).value == 7);
  CHECK(computed.of(1).value == axis_values[1]);
  const joint_program none;
  const joint_program::values nothing{none, axis_values};
  CHECK(none.size() == 0);
}

TEST_CASE("a fault in a part that is not needed is none, and one in a shared part is each one's own") {
  const joint_program program =
      compile({"c == 0 ? 5 : a / c", "a / c", "a + b", "(a / c) * 0 + (a << 70)", "a << 70"});
  joint_program::values computed{program, axis_values};  // c is 0
  CHECK(computed.of(0).value == 5);
  CHECK(computed.of(0).why == fault::none);
  CHECK(computed.of(1).why == fault::division_by_zero);
  CHECK(computed.of(2).value == axis_values[0] + axis_values[1]);
  CHECK(computed.of(3).why == fault::division_by_zero);
  CHECK(computed.of(4).why == fault::out_of_range);
  CHECK(computed.of(1).value == 0);
}

TEST_CASE("what has no room, or reads an argument, is interpreted") {
  joint_program_builder builder;
  std::vector<expression> all;
  for (int i = 0; i < 400; ++i) {
    const std::string n = std::to_string(i + 1);
    all.push_back(expression::parse(joined({"(a * ", n, " + b) * (a + ", n, ") - ", n}), names()));
    CHECK(builder.add(all.back()) == static_cast<std::uint32_t>(i));
  }
  const joint_program program = builder.build();
  joint_program::values computed{program, axis_values};
  for (std::uint32_t i = 0; i < all.size(); ++i)
    REQUIRE(computed.of(i).value == all[i].evaluate(values()).value);

  joint_program_builder with_argument;
  (void)with_argument.add(expression::parse("a + 1", names()));
  (void)with_argument.add(expression::parse("stride + a", names()));
  (void)with_argument.add(expression::parse("a + 2", names()));
  const joint_program other = with_argument.build();
  joint_program::values beside{other, axis_values};
  CHECK(beside.of(0).value == axis_values[0] + 1);
  CHECK(beside.of(2).value == axis_values[0] + 2);
}
