// SPDX-License-Identifier: MIT
// Files that were written before an axis or an argument was renamed are read as if they had today's names.
#include <algorithm>
#include <array>
#include <catch.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/problem/former_names.hpp>

#include "thrown.hpp"

using namespace switchyard;

namespace {

/// An operator of an engine's own: `length` was `n` and, before that, `count`; `scaled` was `with_scale`.
struct renamed {
  static constexpr std::string_view name = "renamed";
  struct arguments {
    const void* x = nullptr;
    std::int64_t length = 0;
    std::int64_t rows = 0;
    bool scaled = false;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::length, &arguments::rows, &arguments::scaled>;
  static constexpr auto axes = switchyard::axes(switchyard::type_axis<&arguments::scaled>(),
                                                switchyard::size_axis<&arguments::length>(),
                                                switchyard::size_axis<&arguments::rows>());
  static constexpr std::array formerly{former_name{"n", "length"}, former_name{"count", "length"},
                                       former_name{"with_scale", "scaled"}};
};

const operator_description& op() {
  return describe<renamed>();
}

/// A manifest whose one variant has these members, before its launches.
manifest manifest_with(const std::string& members, const std::string& parameters, warnings& warned) {
  return parse_manifest(
      R"({"schema": "switchyard.manifest/1", "operator": "renamed",
      "target": {"backend": "host", "arch": "any"}, "variants": [{"id": "v", )" +
          members + R"("launches": [{"blob": "a.so", "sha256": ")" + std::string(64, 'a') +
          R"json(", "kernel": "k", "grid": ["ceil_div(n, tile)"], "block": [1], "parameters": [)json" +
          parameters + "]}]}]}",
      "kernels/renamed/host-any/manifest.json", op(), warned);
}
table table_with(const std::string& members, warnings& warned) {
  return parse_table(R"({"schema": "switchyard.table/1", "operator": "renamed")" + members + "}",
                     "tables/renamed/card.json", op(), warned);
}
std::int64_t value_of(const expression& parsed, std::span<const std::int64_t> problem) {
  static const attribute_values attributes{};
  const renamed::arguments arguments{.length = 1000};
  return parsed.evaluate({problem, attributes, op().fields, reinterpret_cast<const std::byte*>(&arguments)})
      .value;
}

}  // namespace

TEST_CASE("a former name finds its axis, and nothing else changes") {
  CHECK(find_axis(op(), "length") == 1);
  CHECK(find_axis(op(), "n") == 1);
  CHECK(find_axis(op(), "count") == 1);
  CHECK(find_axis(op(), "with_scale") == 0);
  CHECK(find_axis(op(), "width") == 3);
  CHECK(current_name(op(), "rows") == "rows");
  CHECK(with_current_names(op(), "n * rows + min(count, n_2)") == "length * rows + min(length, n_2)");
  CHECK(with_current_names(op(), "") == "");
  CHECK(format_problem(op(), std::array<std::int64_t, 3>{1, 7, 2}) == "scaled=true length=7 rows=2");
}

TEST_CASE("a manifest may use former names in its type, conditions, sizes, grids and parameters") {
  warnings warned;
  const manifest out = manifest_with(
      R"("type": {"with_scale": true}, "config": {"tile": 8}, "requires": ["n % tile == 0", "count > rows"],
         "cost": "n * rows", "workspace": {"partial": "4 * n"}, )",
      R"("x", "n", {"i32": "n + 1"}, "length", {"struct": ["count", {"i32": "rows"}]}, "partial")", warned);
  REQUIRE(warned.messages.empty());
  REQUIRE(out.variants.size() == 1);
  const variant& v = out.variants[0];
  const std::array<std::int64_t, 3> problem{1, 64, 3};
  CHECK(v.type == std::vector<axis_value>{{0, 1}});
  CHECK(value_of(v.conditions[0].value, problem) == 1);
  CHECK(value_of(v.conditions[1].value, problem) == 1);
  CHECK(value_of(v.cost.value, problem) == 192);
  CHECK(value_of(v.workspace[0].value, problem) == 256);
  const launch& only = v.launches[0];
  CHECK(value_of(only.grid[0], problem) == 8);
  REQUIRE(only.parameters.size() == 6);
  for (const parameter& parsed : {only.parameters[1], only.parameters[3], only.parameters[4].members[0]}) {
    CHECK(parsed.from == parameter::source::field);
    CHECK(parsed.index == 1);
    CHECK(parsed.bytes == 8);
  }
  CHECK(value_of(only.parameters[2].value, problem) == 65);
}

TEST_CASE("what a variant calls by a former name is its own") {
  warnings warned;
  const manifest out = manifest_with(R"("config": {"n": 32, "tile": 8}, "workspace": {"count": 64}, )",
                                     R"("count", {"i32": "n"})", warned);
  REQUIRE(warned.messages.empty());
  const launch& only = out.variants.at(0).launches[0];
  CHECK(value_of(only.grid[0], std::array<std::int64_t, 3>{0, 999, 1}) == 4);
  CHECK(only.parameters[0].from == parameter::source::workspace);
  CHECK(value_of(only.parameters[1].value, std::array<std::int64_t, 3>{0, 999, 1}) == 32);
}

TEST_CASE("a config entry with today's name does not change what a former name means") {
  // As rotary's kernels of before: `heads` was a number of their own, and heads_q the argument.
  warnings warned;
  const manifest out = manifest_with(R"("config": {"length": 5, "tile": 8}, )",
                                     R"("n", {"i32": "n"}, {"i32": "length"})", warned);
  REQUIRE(warned.messages.empty());
  const launch& only = out.variants.at(0).launches[0];
  const std::array<std::int64_t, 3> problem{0, 64, 1};
  CHECK(value_of(only.grid[0], problem) == 8);
  CHECK(only.parameters[0].from == parameter::source::field);
  CHECK(value_of(only.parameters[1].value, problem) == 64);
  CHECK(value_of(only.parameters[2].value, problem) == 5);
}

TEST_CASE("an unknown name is not answered with a former one") {
  warnings warned;
  CHECK(manifest_with(R"("config": {"tile": 8}, "requires": ["with_scal"], )", "", warned).variants.empty());
  REQUIRE(warned.messages.size() == 1);
  CHECK_THAT(warned.messages[0], has_text("unknown name 'with_scal'"));
  CHECK_THAT(warned.messages[0], !has_text("with_scale"));
}

TEST_CASE("a table may use former names in its axes, match, types, denials and pins") {
  warnings warned;
  const table out = table_with(
      R"(, "match": {"n": {"log": 4}, "rows": "ignore", "n * rows": "log"},
          "deny": [{"variant": "b", "type": {"with_scale": false}}],
          "pin": [{"variant": "a", "at": {"count": [1, 64]}}],
          "groups": [{"type": {"with_scale": true}, "axes": ["rows", "n"],
                      "rows": [{"at": [4, 1024], "times_us": {"a": 7.5}}]}])",
      warned);
  REQUIRE(warned.messages.empty());
  CHECK(out.match.axes[1] == axis_rule{axis_metric::log, 4});
  REQUIRE(out.match.features.size() == 1);
  CHECK(out.match.features[0].text == "length * rows");  // as a table of today has it: the two can be merged
  CHECK(value_of(out.match.features[0].value, std::array<std::int64_t, 3>{0, 6, 7}) == 42);
  REQUIRE(out.groups.size() == 1);
  CHECK(out.groups[0].type == std::vector<axis_value>{{0, 1}});
  CHECK(out.groups[0].axes == std::vector<std::uint32_t>{2, 1});
  REQUIRE(out.denials.size() == 1);
  CHECK(out.denials[0].type == std::vector<axis_value>{{0, 0}});
  REQUIRE(out.pins.size() == 1);
  CHECK(out.pins[0].at[0].axis == 1);
}

TEST_CASE("two names of one axis in one place are refused") {
  warnings warned;
  CHECK(manifest_with(R"("type": {"with_scale": true, "scaled": true}, "config": {"tile": 8}, )", "", warned)
            .variants.empty());
  REQUIRE(warned.messages.size() == 1);
  CHECK_THAT(warned.messages[0],
             has_text("/variants/0/type: 'with_scale' is a former name of 'scaled', so 'scaled' "
                      "gives the same axis again; remove one of the two"));

  const auto refusal = [](const std::string& members) -> std::string {
    warnings ignored;
    return switchyard::test::refusal_by<file_error>(error_code::invalid_entry,
                                                    [&] { return table_with(members, ignored); });
  };
  CHECK_THAT(refusal(R"(, "match": {"length": "log", "n": "log"})"),
             has_text("/match: 'n' is a former name of 'length', so 'length' gives the same axis again"));
  CHECK_THAT(refusal(R"(, "match": {"n": "log", "count": "log"})"),
             has_text("'n' is a former name of 'length', so 'count' gives the same axis again"));
  CHECK_THAT(refusal(R"(, "match": {"n * rows": "log", "length * rows": "log"})"),
             has_text("'length * rows' is listed twice, once under a former name"));

  warnings entries;
  const table out = table_with(R"(, "pin": [{"variant": "a", "at": {"n": 1, "length": 2}}],
      "groups": [{"axes": ["n", "length"], "rows": []}])",
                               entries);
  CHECK(out.pins.empty());
  CHECK(out.groups.empty());
  REQUIRE(entries.messages.size() == 2);
  const auto says = [&](const char* text) {
    return std::any_of(entries.messages.begin(), entries.messages.end(),
                       [&](const std::string& message) { return message.find(text) != std::string::npos; });
  };
  CHECK(says("/pin/0/at: 'n' is a former name of 'length'"));
  CHECK(says("/groups/0/axes/1: axis 'length' is listed twice, perhaps under a former name"));
}

TEST_CASE("rotary's heads_q and heads_k are heads and heads_kv") {
  const operator_description& rotary = describe<operators::rotary>();
  CHECK(find_axis(rotary, "heads_q") == find_axis(rotary, "heads"));
  CHECK(find_axis(rotary, "heads_k") == find_axis(rotary, "heads_kv"));
  CHECK(find_axis(rotary, "heads") < rotary.axes.size());
  CHECK(rotary.axes[find_axis(rotary, "heads_k")].name == "heads_kv");
}
