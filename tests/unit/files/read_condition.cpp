// SPDX-License-Identifier: MIT
// Conditions on arguments, and arguments: what files spell, and what it becomes.
#include <catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/files/write_table.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

namespace {

std::string conditional(const std::string& id, const std::string& conditions,
                        const std::string& members = "") {
  return R"({"id": ")" + id + R"(", "requires": [)" + conditions + "]" + members +
         R"(, "launches": [{"blob": "a.so", "sha256": ")" + std::string(64, 'a') +
         R"(", "kernel": "k", "grid": [1], "block": [1], "parameters": ["x"]}]})";
}

std::string conditional_manifest(const std::string& variants, const std::string& members = "") {
  return R"({"schema": "switchyard.manifest/1", "operator": "scale", )" + members +
         R"("target": {"backend": "host", "arch": "any"}, "variants": [)" + variants + "]}";
}

manifest read_with(added_axes& known, const std::string& text, warnings& warned) {
  return parse_manifest(text, "m.json", known.reading(), warned);
}

/// The first condition of a variant, as it is spelt everywhere else.
std::string spelt_condition(const std::string& condition, const std::string& members = "") {
  added_axes known{sample::description()};
  warnings warned;
  (void)read_with(known, conditional_manifest(conditional("v", '"' + condition + '"', members)), warned);
  if (!warned.messages.empty()) return warned.messages[0];
  return known.now().added_count == 0 ? "none" : std::string{known.now().axes.back().name};
}

/// Whether a condition holds for a call.
bool condition_holds(const std::string& condition, const sample::scale::arguments& call) {
  added_axes known{sample::description()};
  warnings warned;
  (void)read_with(known, conditional_manifest(conditional("v", '"' + condition + '"')), warned);
  REQUIRE(warned.messages.empty());
  REQUIRE(known.now().added_count == 1);
  const auto own = make_problem<sample::scale>(call);
  const attribute_values attributes{};
  return call_problem{known.now(), own, attributes, &call}.conditions() == 1;
}

}  // namespace

TEST_CASE("a condition on arguments is spelt without spaces, with the values of the config") {
  CHECK(spelt_condition("stride == columns") == "stride==columns");
  CHECK(spelt_condition(" stride==columns  ") == "stride==columns");
  CHECK(spelt_condition("stride % vector == 0", R"(, "config": {"vector": 8})") == "stride%8==0");
  CHECK(spelt_condition("stride > low", R"(, "config": {"low": -4})") == "stride>(-4)");
  CHECK(spelt_condition("stride == 2 && dtype == f16") == "stride==2&&dtype==f16");
  CHECK(spelt_condition("flags") == "flags!=0");
  CHECK(spelt_condition("rows > 4") == "none");
  CHECK(spelt_condition("factor >= 0.5") == "factor>=0.5");
  CHECK_THAT(spelt_condition("strid == 1"),
             has_text("[switchyard.111]") && has_text("did you mean 'stride'?"));
  CHECK_THAT(spelt_condition("factor % 2 == 0"), has_text("[switchyard.111]") && has_text("unexpected '%'"));
  CHECK_THAT(spelt_condition("rows > 0.5"), has_text("[switchyard.111]") && has_text("unexpected '.'"));
  CHECK_THAT(spelt_condition("stride == " + std::string(200, '1')), has_text("[switchyard.111]"));
  std::string sum = "stride == 1";
  while (sum.size() < 300) sum += " || stride == 2";
  CHECK_THAT(spelt_condition(sum), has_text("a condition on arguments has at most 200 characters, got "));
}

TEST_CASE("a condition reads arguments and axes; what cannot be computed does not hold") {
  CHECK(condition_holds("stride == columns", {.columns = 3, .stride = 3}));
  CHECK_FALSE(condition_holds("stride == columns", {.columns = 3, .stride = 4}));
  CHECK(condition_holds("factor >= 0.5", {.factor = 0.5F}));
  CHECK_FALSE(condition_holds("factor >= 0.5", {.factor = 0.25F}));
  CHECK(condition_holds("factor == offset", {.factor = 0.5F, .offset = 0.5}));
  CHECK_FALSE(
      condition_holds("factor == offset", {.factor = 0.5F, .offset = 0.25}));  // cut to integers, both are 0
  CHECK_FALSE(condition_holds("8 / stride == 4", {.stride = 0}));
  CHECK(condition_holds("8 / stride == 4", {.stride = 2}));
  const int some = 0;
  CHECK(condition_holds("x != 0", {.x = &some}));
  CHECK_FALSE(condition_holds("x != 0", {}));
}

TEST_CASE("a condition becomes part of a variant's type, once") {
  added_axes known{sample::description()};
  warnings warned;
  const manifest read =
      read_with(known,
                conditional_manifest(conditional("a", R"("stride == 1", "rows > 4", "stride==1")",
                                                 R"(, "type": {"dtype": "f16"})") +
                                     "," + conditional("b", R"("flags != 3")")),
                warned);
  CHECK(warned.messages.empty());
  const auto first = static_cast<std::uint32_t>(sample::description().axes.size());
  REQUIRE(read.variants.size() == 2);
  CHECK(read.variants[0].type == std::vector<axis_value>{{0, 0}, {first, 1}});
  CHECK(read.variants[0].conditions.size() == 1);
  CHECK(read.variants[1].type == std::vector<axis_value>{{first + 1, 1}});
}

TEST_CASE("the entry that goes over 64 conditions is left out, and no other") {
  std::string text;
  for (int i = 0; i < 66; ++i)
    text +=
        (i > 0 ? "," : "") + conditional("v" + std::to_string(i), "\"stride == " + std::to_string(i) + '"');
  text += "," + conditional("again", R"("stride == 5")") + "," + conditional("plain", R"("rows > 1")");
  added_axes known{sample::description()};
  warnings warned;
  const manifest read = read_with(known, conditional_manifest(text), warned);
  CHECK(read.variants.size() == 66);
  REQUIRE(warned.messages.size() == 2);
  CHECK_THAT(
      warned.messages[0],
      has_text("[switchyard.111] m.json: /variants/64/requires/0: 'stride==64' would be one condition on "
               "arguments too many for operator 'scale': its files together may name 64. Name "
               "fewer, or give the operator an axis"));
  added_axes again{sample::description()};
  warnings of_outline;
  const manifest_file file{conditional_manifest(text), "m.json", again.reading(), of_outline};
  CHECK(of_outline.messages.empty());
  CHECK(again.now().added_count == 64);
  CHECK(file.read_all(of_outline)->variants.size() == 66);
  CHECK(of_outline.messages == warned.messages);
}

TEST_CASE("an outlined manifest makes its conditions known before an entry is asked for") {
  const auto names = [](const std::string& text) {
    added_axes known{sample::description()};
    warnings warned;
    const manifest_file file{text, "m.json", known.reading(), warned};
    std::string out;
    for (const axis_description& axis : known.now().axes.subspan(sample::description().axes.size()))
      out += std::string{axis.name} + ' ';
    return out;
  };
  CHECK(names(conditional_manifest(conditional("a", R"("rows > 1")"))).empty());
  CHECK(names(conditional_manifest(conditional("a", R"("stride == 1")") + "," +
                                   conditional("b", R"("flags")"))) == "stride==1 flags!=0 ");
  CHECK(names(conditional_manifest(conditional("a", R"("str\u0069de == n")", R"(, "config": {"n": 2})"))) ==
        "stride==2 ");
  CHECK(names(conditional_manifest(
            R"({"id": "a", "like": "base"}, {"id": "b", "like": "base", "config": {"n": 3}},
                             {"id": "c", "like": "base", "requires": []})",
            R"("shared": {"base": {"config": {"n": 2}, "requires": ["stride == n"]}}, )")) ==
        "stride==2 stride==3 ");
}

TEST_CASE("tables name conditions by their text, with or without spaces, and are written without") {
  added_axes known{sample::description()};
  warnings warned;
  const table read = parse_table(R"({"schema": "switchyard.table/1", "operator": "scale",
    "deny": [{"variant": "v", "reason": "r", "type": {"flags != 0": false}}],
    "groups": [{"type": {"dtype": "f16", "stride == columns": true}, "axes": ["rows"],
                "measured_with": {"factor > 0.5": [true, false]},
                "rows": [{"at": [4], "times_us": {"v": 1}}]}]})",
                                 "t.json", known.live(), warned);
  CHECK(warned.messages.empty());
  REQUIRE(known.live().added_count == 3);
  const std::string written = format_table(known.live(), read);
  CHECK_THAT(written, has_text(R"("type": {"flags!=0": false})"));
  CHECK_THAT(written, has_text(R"("type": {"dtype": "f16", "stride==columns": true})"));
  CHECK_THAT(written, has_text(R"("measured_with": {"factor>0.5": [false, true]})"));
  CHECK(format_table(known.live(), parse_table(written, "t.json", known.live(), warned)) == written);
}

TEST_CASE("what is neither an axis nor a condition is refused") {
  const auto refusal = [](const std::string& type) {
    added_axes known{sample::description()};
    warnings warned;
    (void)parse_table(R"({"schema": "switchyard.table/1", "operator": "scale",
      "groups": [{"type": {)" +
                          type + R"(}, "axes": ["rows"], "rows": []}]})",
                      "t.json", known.reading(), warned);
    CHECK(known.now().added_count == 0);
    return warned.messages.empty() ? std::string{} : warned.messages[0];
  };
  CHECK_THAT(
      refusal(R"("stride": 1)"),
      has_text("[switchyard.108]") && has_text("/groups/0/type: 'stride' goes by the argument 'stride'"));
  CHECK_THAT(refusal(R"("strid == 1": true)"), has_text("has no axis 'strid == 1'"));
  CHECK_THAT(refusal(R"("rows == 1": true)"), has_text("has no axis 'rows == 1'"));
  added_axes known{sample::description()};
  warnings warned;
  (void)parse_table(R"({"schema": "switchyard.table/1", "operator": "scale",
    "pin": [{"variant": "v", "at": {"stride == 1": true}}],
    "groups": [{"type": {"stride == 1": 3}, "axes": ["rows"], "rows": []}]})",
                    "t.json", known.reading(), warned);
  REQUIRE(warned.messages.size() == 2);
  CHECK_THAT(
      warned.messages[0],
      has_text("/pin/0/at/stride == 1: 'stride == 1' is a condition on arguments; put it into 'type'"));
  CHECK_THAT(warned.messages[1], has_text("has no value '3'; it has false, true"));
}

TEST_CASE("a variant whose cost reads an argument is left out, and the rest serves") {
  added_axes known{sample::description()};
  warnings warned;
  const std::string first = conditional("v", R"("stride == 1")", R"(, "cost": "min(stride, 64) * rows")");
  const std::string second = conditional("w", "", R"(, "cost_ns": "flags")");
  const manifest read =
      read_with(known, conditional_manifest(first + "," + second + "," + conditional("good", "")), warned);
  REQUIRE(read.variants.size() == 1);
  CHECK(read.variants[0].id == "good");
  REQUIRE(warned.messages.size() == 2);
  CHECK_THAT(
      warned.messages[0],
      has_text("[switchyard.111]") &&
          has_text(
              "/variants/0/cost: 'min(stride, 64) * rows' goes by the argument 'stride', which no axis of "
              "operator 'scale' holds. Tell calls apart by a condition in 'type' or 'requires', such as "
              "\"stride <= 1024\", or give the operator an axis for it"));
  CHECK_THAT(warned.messages[1], has_text("/variants/1/cost_ns: 'flags' goes by the argument 'flags'"));
}

TEST_CASE("what of a table goes by an argument is left out, and the rest serves") {
  added_axes known{sample::description()};
  warnings warned;
  const table read = parse_table(R"({"schema": "switchyard.table/1", "operator": "scale",
    "match": {"rows": {"linear": 8}, "stride": "log", "rows * stride": "log", "rows * columns": "log"},
    "pin": [{"variant": "v", "at": {"stride": 4}}, {"variant": "w", "at": {"rows": 4}}],
    "groups": [{"type": {}, "axes": ["rows", "stride"], "rows": [{"at": [4, 8], "times_us": {"v": 1}}]},
               {"type": {"stride <= 8": true}, "axes": ["rows"], "rows": [{"at": [4], "times_us": {"v": 1}}]}]})",
                                 "t.json", known.reading(), warned);
  REQUIRE(warned.messages.size() == 4);
  CHECK_THAT(warned.messages[0],
             has_text("[switchyard.111]") &&
                 has_text("/match/rows * stride: 'rows * stride' goes by the argument 'stride'"));
  CHECK_THAT(warned.messages[1],
             has_text("[switchyard.108]") && has_text("/match: 'stride' goes by the argument 'stride'"));
  CHECK_THAT(warned.messages[2], has_text("/pin/0/at: 'stride' goes by the argument 'stride'"));
  CHECK_THAT(warned.messages[3],
             has_text("/groups/0/axes/1: 'stride' goes by the argument 'stride', which no axis of operator "
                      "'scale' holds. Tell calls apart by a condition in 'type' or 'requires', such as "
                      "\"stride <= 1024\", or give the operator an axis for it"));
  CHECK(read.match.axes.at(find_axis(known.reading(), "rows")) == axis_rule{axis_metric::linear, 8});
  REQUIRE(read.match.features.size() == 1);
  CHECK(read.match.features[0].text == "rows * columns");
  REQUIRE(read.pins.size() == 1);
  CHECK(read.pins[0].variant == "w");
  REQUIRE(read.groups.size() == 1);
  CHECK(read.groups[0].source_group == 1);
}

TEST_CASE("rows go by size axes alone") {
  const auto refusal = [](const std::string& axes) {
    added_axes none{sample::description()};
    warnings said;
    (void)parse_table(R"({"schema": "switchyard.table/1", "operator": "scale",
      "groups": [{"axes": [)" +
                          axes + R"(], "rows": []}]})",
                      "t.json", none.reading(), said);
    CHECK(none.now().added_count == 0);
    return said.messages.empty() ? std::string{} : said.messages[0];
  };
  CHECK_THAT(refusal(R"("factor")"),
             has_text("[switchyard.108]") && has_text("goes by the argument 'factor'"));
  CHECK_THAT(refusal(R"("stride == 1")"), has_text("has no axis 'stride == 1'"));
  CHECK_THAT(refusal(R"("dtype")"), has_text("'dtype' is a type axis; put it into 'type'"));
}
