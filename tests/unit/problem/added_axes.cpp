// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstdint>
#include <string>

#include <switchyard/problem/added_axes.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

namespace {

/// A condition that is true where an axis has a value.
argument_condition constant_condition(std::int64_t value) {
  return {expression{value}, false};
}

}  // namespace

TEST_CASE("conditions continue an operator's axes, in the order in which they were added") {
  const operator_description& op = sample::description();
  added_axes all{op};
  CHECK(&all.now() == &op);
  CHECK(all.reading().added == &all);
  CHECK(all.reading().axes.size() == op.axes.size());
  const auto first = static_cast<std::uint32_t>(op.axes.size());
  CHECK(all.find("stride==1") == added_axes::no_axis);
  CHECK(all.add("stride==1", constant_condition(1)) == first);
  const operator_description& one = all.now();
  CHECK(all.add("stride==2", constant_condition(0)) == first + 1);
  CHECK(all.add("stride==1", constant_condition(0)) == first);
  CHECK(all.find("stride==2") == first + 1);
  CHECK(one.added_count == 1);  // as it was
  CHECK(one.axes.size() == first + 1);
  const operator_description& two = all.now();
  CHECK(two.added_count == 2);
  CHECK(two.own_axes() == op.axes.size());
  CHECK(two.axes.back().name == "stride==2");
  CHECK(two.axes.back().kind == axis_kind::type);
  CHECK(all.live().axes.size() == two.axes.size());
  CHECK(&all.now() == &two);
  CHECK(axis_at(all.reading(), first).is_flag);
  CHECK(axis_at(all.reading(), 0).name == "dtype");
  CHECK(find_axis(two, "stride==2") == first + 1);
}

TEST_CASE("an operator has room for 64 axes that files add") {
  added_axes all{sample::description()};
  const auto first = static_cast<std::uint32_t>(sample::description().axes.size());
  for (std::uint32_t i = 0; i < max_added_axes; ++i)
    REQUIRE(all.add("stride==" + std::to_string(i), constant_condition(i % 2)) == first + i);
  CHECK(all.add("stride==64", constant_condition(1)) == added_axes::no_room);
  CHECK(all.find("stride==64") == added_axes::no_axis);
  CHECK(all.add("stride==63", constant_condition(1)) == first + 63);
  const operator_description& op = all.now();
  const auto own = sample::problem({{"rows", 7}, {"columns", 9}});
  const call_problem called{op, own, {}, nullptr};
  CHECK(called.conditions() == 0xaaaaaaaaaaaaaaaaU);
  const call_problem kept{op, own, called.conditions()};
  for (const call_problem* const problem : {&called, &kept}) {
    CHECK(problem->own().data() == own.data());
    REQUIRE(problem->all().size() == own.size() + max_added_axes);
    for (std::size_t i = 0; i < own.size(); ++i) CHECK(problem->all()[i] == own[i]);
    for (std::size_t i = 0; i < max_added_axes; ++i)
      CHECK(problem->all()[own.size() + i] == (i % 2 == 0 ? 0 : 1));
  }
}

TEST_CASE("a problem of an operator without conditions is kept as it is") {
  added_axes all{sample::description()};
  const auto own = sample::problem({{"rows", 7}});
  const call_problem problem{all.now(), own, {}, nullptr};
  CHECK(problem.conditions() == 0);
  CHECK(problem.all().data() == own.data());
  CHECK(problem.all().size() == own.size());
}
