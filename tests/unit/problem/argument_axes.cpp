// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/problem/argument_axes.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

namespace {

/// A condition that is true where an axis has a value.
argument_axis constant_condition(std::int64_t value) {
  return {expression{value}, axis_kind::type, false};
}

}  // namespace

TEST_CASE("conditions continue an operator's axes, in the order in which they were added") {
  const operator_description& op = sample::description();
  argument_axes all{op};
  CHECK(&all.now() == &op);
  CHECK(all.reading().arguments == &all);
  CHECK(all.reading().axes.size() == op.axes.size());
  const auto first = static_cast<std::uint32_t>(op.axes.size());
  CHECK(all.find("stride==1") == argument_axes::no_axis);
  CHECK(all.add("stride==1", constant_condition(1)) == first);
  const operator_description& one = all.now();
  CHECK(all.add("stride==2", constant_condition(0)) == first + 1);
  CHECK(all.add("stride==1", constant_condition(0)) == first);
  CHECK(all.find("stride==2") == first + 1);
  CHECK(one.added_axes == 1);  // as it was
  CHECK(one.axes.size() == first + 1);
  const operator_description& two = all.now();
  CHECK(two.added_axes == 2);
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
  argument_axes all{sample::description()};
  const auto first = static_cast<std::uint32_t>(sample::description().axes.size());
  for (std::uint32_t i = 0; i < max_argument_axes; ++i)
    REQUIRE(all.add("stride==" + std::to_string(i), constant_condition(i % 2)) == first + i);
  CHECK(all.add("stride==64", constant_condition(1)) == argument_axes::no_room);
  CHECK(all.find("stride==64") == argument_axes::no_axis);
  CHECK(all.add("stride==63", constant_condition(1)) == first + 63);
  const operator_description& op = all.now();
  const auto own = sample::problem({{"rows", 7}, {"columns", 9}});
  const packed_problem packed{op, own, {}, nullptr};
  const problem_view kept = packed;
  REQUIRE(kept.size() == own.size() + 1);
  CHECK(static_cast<std::uint64_t>(kept.back()) == 0xaaaaaaaaaaaaaaaaU);
  const expanded_problem expanded{op, packed};
  REQUIRE(expanded.view().size() == own.size() + max_argument_axes);
  for (std::size_t i = 0; i < own.size(); ++i) CHECK(expanded.view()[i] == own[i]);
  for (std::size_t i = 0; i < max_argument_axes; ++i)
    CHECK(expanded.view()[own.size() + i] == (i % 2 == 0 ? 0 : 1));
}

TEST_CASE("a problem of an operator without conditions is kept as it is") {
  argument_axes all{sample::description()};
  const auto own = sample::problem({{"rows", 7}});
  const packed_problem packed{all.now(), own, {}, nullptr};
  const problem_view kept = packed;
  REQUIRE(kept.size() == own.size());
  const expanded_problem expanded{all.now(), kept};
  CHECK(expanded.view().data() == kept.data());
}

TEST_CASE("arguments lie among conditions, and behind their bits where a problem is kept") {
  argument_axes all{sample::description()};
  const auto first = static_cast<std::uint32_t>(sample::description().axes.size());
  CHECK(all.add("stride==1", constant_condition(1)) == first);
  CHECK(all.add("stride", {expression{std::int64_t{-7}}, axis_kind::size, false}) == first + 1);
  CHECK(all.add("stride==2", constant_condition(0)) == first + 2);
  CHECK(all.add("flags", {expression{std::int64_t{9}}, axis_kind::size, false}) == first + 3);
  CHECK(all.add("stride==3", constant_condition(1)) == first + 4);
  const operator_description& op = all.now();
  CHECK(op.added_axes == 5);
  CHECK(op.added_sizes == 2);
  CHECK(op.axes[first + 1].kind == axis_kind::size);
  CHECK(op.axes[first + 1].value_names.empty());
  const auto own = sample::problem({{"rows", 7}});
  const packed_problem packed{op, own, {}, nullptr};
  const problem_view kept = packed;
  REQUIRE(kept.size() == first + 3);
  CHECK(kept[first] == 0x11);
  CHECK(kept[first + 1] == -7);
  CHECK(kept[first + 2] == 9);
  const expanded_problem expanded{op, packed};
  CHECK(std::vector<std::int64_t>(expanded.view().begin() + first, expanded.view().end()) ==
        std::vector<std::int64_t>{1, -7, 0, 9, 1});
  CHECK(format_problem(op, expanded.view())
            .ends_with("stride==1=true stride=-7 stride==2=false flags=9 stride==3=true"));
}

TEST_CASE("an operator has room for 8 arguments") {
  argument_axes all{sample::description()};
  const argument_axis argument{expression{std::int64_t{1}}, axis_kind::size, false};
  for (int i = 0; i < 8; ++i) CHECK(all.add("a" + std::to_string(i), argument) < argument_axes::no_room);
  CHECK(all.add("a8", argument) == argument_axes::no_room);
  CHECK(all.add("a7", argument) < argument_axes::no_room);
  CHECK(all.add("stride==1", constant_condition(1)) < argument_axes::no_room);
}
