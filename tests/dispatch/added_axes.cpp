// SPDX-License-Identifier: MIT
// Axes that files add: the same problem, served by one variant or another as its arguments are.
#include <cstdint>
#include <memory>
#include <string>

#include "allocation_counter.hpp"
#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

/// `stamp_variant` that requires something of the call.
json requiring(const std::string& id, int number, const std::vector<std::string>& conditions) {
  json out = stamp_variant(id, number);
  out["requires"] = conditions;
  return out;
}

/// The first serves calls of two blocks alone, and is the fastest.
disk with_a_condition() {
  return {"stamp", {requiring("pair", 2, {"blocks == 2"}), stamp_variant("any", 1)}};
}

/// Arguments that are a small array.
struct weighted {
  static constexpr std::string_view name = "weighted";
  struct arguments {
    std::int32_t* out = nullptr;
    float w[3] = {1, 1, 1};  // NOLINT(modernize-avoid-c-arrays): what is tested
    std::int64_t n = 1;
  };
  static constexpr auto fields = sy::fields<&arguments::out, &arguments::w, &arguments::n>;
  static constexpr auto axes = sy::axes(sy::size_axis<&arguments::n>());
};

}  // namespace

TEST_CASE("a condition on arguments decides call by call, also among calls of one problem") {
  const disk files = with_a_condition();
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  for (int round = 0; round < 3; ++round) {
    CHECK(run(on, {.blocks = 1}) == 1);
    CHECK(run(on, {.blocks = 2}) == 2);
    CHECK(run(on, {.blocks = 3}) == 1);
  }
  const std::uint64_t before = allocations_of_this_thread();
  CHECK(run(on, {.blocks = 2}) == 2);
  CHECK(run(on, {.blocks = 1}) == 1);
  CHECK(allocations_of_this_thread() == before);  // both are known
  CHECK(on.workspace_bytes({.blocks = 2}) == 0);
  CHECK(files.log().empty());
}

TEST_CASE("a condition is part of what is explained, and of why nothing serves") {
  const disk files{"stamp", {requiring("pair", 2, {"blocks == 2"})}};
  disk_dispatcher<stamp> on{files, sy::device::host()};
  const sy::explanation why = on.explain({.blocks = 2});
  CHECK(why.variant == "pair");
  CHECK_THAT(why.problem, has_text("seqlen=1 blocks==2=true"));
  const sy::explanation other = on.explain({.blocks = 3});
  CHECK(other.variant.empty());
  CHECK(other.candidates.at(0).obstacle == "requires blocks==2");
  CHECK_THROWS_WITH(run(on, {.blocks = 3}), has_text("[switchyard.302]") && has_text("blocks==2=false") &&
                                                has_text("pair (requires blocks==2)"));
}

TEST_CASE("rules that are asked for a problem without the axes that files added take them as false") {
  const disk files = with_a_condition();
  sy::catalog catalog{files.options()};
  const auto rules = catalog.make_selector(sy::describe<stamp>(), sy::host::read_properties());
  REQUIRE(rules->op->axes.size() == sy::axis_count<stamp> + 1);
  const auto problem = sy::make_problem<stamp>({.blocks = 2});
  const sy::explanation why = sy::explain(*rules, problem, rules->select(problem));
  CHECK(why.variant == "any");
  CHECK_THAT(why.problem, has_text("blocks==2=false"));
  CHECK_THAT(sy::explain_failure(*rules, problem), has_text("blocks==2=false"));
}

TEST_CASE("rows may be of calls for which a condition holds, and pins and denials too") {
  const disk files{
      "stamp", {requiring("pair", 2, {"blocks == 2"}), stamp_variant("any", 1), stamp_variant("other", 3)}};
  files.put_table("stamp", {stamp_group({row(1, 1, {{"any", 2.0}, {"other", 1.0}})},
                                        {{"dtype", "f32"}, {"blocks==2", false}}),
                            stamp_group({row(1, 1, {{"pair", 9.0}, {"any", 5.0}, {"other", 7.0}})},
                                        {{"dtype", "f32"}, {"blocks == 2", true}})});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {.blocks = 1}) == 3);
  CHECK(run(on, {.blocks = 2}) == 1);
  CHECK(on.explain({.blocks = 1}).chosen.why == sy::reason::exact);
  CHECK(on.explain({.blocks = 2}).table_group == 1);
  json denying =
      disk::make_table("stamp", {stamp_group({row(1, 1, {{"any", 5.0}, {"pair", 9.0}, {"other", 7.0}})})});
  denying["deny"] = json::array({{{"variant", "any"}, {"reason", "slow"}, {"type", {{"blocks==2", true}}}}});
  files.write(files.table_path("stamp"), denying.dump());
  (void)on.catalog.reload();
  CHECK(run(on, {.blocks = 1}) == 1);
  CHECK(run(on, {.blocks = 2}) == 3);
  CHECK(files.log().empty());
}

TEST_CASE("rows do not decide calls for which a condition holds that they were not measured with") {
  const disk files = with_a_condition();
  json group = stamp_group({row(1, 1, {{"any", 5.0}})});
  group["measured_with"] = {{"blocks==2", false}};
  files.put_table("stamp", {group});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(on.explain({.blocks = 1}).chosen.why == sy::reason::exact);
  const sy::explanation why = on.explain({.blocks = 2});
  CHECK(why.chosen.why == sy::reason::heuristic);
  CHECK(why.variant == "pair");
  CHECK_THAT(sy::to_string(why), has_text("they were measured with blocks==2=false"));
}

TEST_CASE("recordings and debug lines have the conditions") {
  const disk files = with_a_condition();
  sy::catalog_options options = files.options();
  options.settings.record = (files.root() / "problems.jsonl").string();
  options.settings.debug = sy::debug_level::choices;
  {
    sy::catalog catalog{options};
    sy::dispatcher<stamp> on{catalog, sy::device::host()};
    for (int i = 0; i < 3; ++i) CHECK(run(on, {.blocks = 2}) == 2);
    CHECK(run(on, {.blocks = 5}) == 1);
  }
  int lines = 0;
  for (const std::string& line : lines_of(read_text(files.root() / "problems.jsonl"))) {
    const json entry = json::parse(line);
    lines += entry["count"].get<int>() * (entry["problem"]["blocks==2"] == "true" ? 10 : 1);
  }
  CHECK(lines == 31);
  CHECK_THAT(files.log(), has_text("blocks==2=true") && has_text("blocks==2=false"));
}

TEST_CASE("prepare loads what a call needs under its conditions, for ranges too") {
  const disk files;
  files.write(files.kernels("stamp") / "pair.so", read_text(disk::built("stamp.so")) + std::string(8, 'x'));
  json pair = requiring("pair", 2, {"blocks == seqlen"});
  pair["launches"][0]["blob"] = "pair.so";
  files.put_manifest("stamp", {pair, stamp_variant("any", 1)});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({.seqlen = 4, .blocks = 4});
  CHECK(driver->loads == 1);
  CHECK(run(on, {.seqlen = 4, .blocks = 4}) == 2);
  CHECK(driver->loads == 1);
  on.prepare({.blocks = 7}, {{"seqlen", 1, 6}});
  CHECK(driver->loads == 2);  // none of them has as many blocks as elements
  for (std::int64_t i = 1; i <= 7; ++i) CHECK(run(on, {.seqlen = i, .blocks = 7}) == (i == 7 ? 2 : 1));
  CHECK(driver->loads == 2);
}

TEST_CASE("files that name new conditions, and no conditions any more, are taken into use") {
  const disk files{"stamp", {stamp_variant("any", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({}, {{"seqlen", 1, 4}});
  CHECK(run(on, {.blocks = 2}) == 1);
  files.write(files.kernels("stamp") / "pair.so", read_text(disk::built("stamp.so")) + std::string(8, 'x'));
  json pair = requiring("pair", 2, {"blocks == 2"});
  pair["launches"][0]["blob"] = "pair.so";
  files.put_manifest("stamp", {pair, stamp_variant("any", 1)});
  CHECK(on.catalog.reload().refused.empty());
  const int loads = driver->loads;
  CHECK(loads == 2);  // the reload loaded what both kinds of calls need
  CHECK(run(on, {.blocks = 2}) == 2);
  CHECK(run(on, {.blocks = 1}) == 1);
  CHECK(driver->loads == loads);
  files.put_manifest("stamp", {requiring("many", 4, {"blocks > 8"}), pair, stamp_variant("any", 1)});
  (void)on.catalog.reload();
  CHECK(run(on, {.blocks = 2}) == 2);
  CHECK(run(on, {.blocks = 9}) == 4);
  files.put_manifest("stamp", {stamp_variant("any", 1)});
  (void)on.catalog.reload();
  CHECK(run(on, {.blocks = 2}) == 1);
  CHECK(run(on, {.blocks = 9}) == 1);
}

TEST_CASE("a replacement loads what known problems need without its new conditions, and with them") {
  const disk files;
  const auto in_own_blob = [&files](json variant, const std::string& blob) {
    files.write(files.kernels("stamp") / blob, read_text(disk::built("stamp.so")) + blob);
    variant["launches"][0]["blob"] = blob;
    return variant;
  };
  const json triple = in_own_blob(requiring("triple", 3, {"blocks == 3"}), "triple.so");
  files.put_manifest("stamp", {triple, stamp_variant("any", 1)});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run(on, {.blocks = 1}) == 1);
  const json pair = in_own_blob(requiring("pair", 2, {"blocks == 2"}), "pair.so");
  files.put_manifest("stamp", {triple, pair, stamp_variant("any", 1)});
  CHECK(on.catalog.reload().refused.empty());
  driver->is_capturing = true;  // nothing is loaded from now on
  CHECK(run(on, {.blocks = 1}) == 1);
  CHECK(run(on, {.blocks = 2}) == 2);
}

TEST_CASE("the entry that goes over 64 conditions is left out with a warning, and the rest serves") {
  const disk files;
  std::vector<json> variants;
  for (int i = 1; i <= 66; ++i)
    variants.push_back(requiring("v" + std::to_string(i), i, {"blocks == " + std::to_string(i)}));
  variants.push_back(stamp_variant("any", 100));
  files.put_manifest("stamp", variants);
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {.blocks = 1}) == 1);
  CHECK(run(on, {.blocks = 64}) == 64);
  CHECK(run(on, {.blocks = 65}) == 100);
  CHECK_THAT(files.log(),
             has_text("/variants/64/requires/0: 'blocks==65' would be one condition on arguments too many"));
}

TEST_CASE("a condition may read the elements of an argument that is a small array") {
  const disk files;
  const auto variant = [](const std::string& id, int number) {
    json out = stamp_variant(id, number);
    out.erase("type");
    return out;
  };
  json equal = variant("equal", 2);
  equal["requires"] = json::array({"w[0] == w[1] && w[1] == w[2]"});
  files.put_manifest("weighted", {equal, variant("any", 1)});
  disk_dispatcher<weighted> on{files, sy::device::host()};
  std::int32_t out = 0;
  on(nullptr, {.out = &out});
  CHECK(out == 2);
  on(nullptr, {.out = &out, .w = {0.25F, 0.25F, 0.5F}});
  CHECK(out == 1);
}

TEST_CASE("what goes by an argument as if it were a size is refused, and the rest serves") {
  const disk files;
  json few = stamp_variant("few", 1);
  few["cost"] = "blocks * blocks";
  files.put_manifest("stamp", {few, stamp_variant("many", 2), stamp_variant("other", 3)});
  json by_blocks = stamp_group({});
  by_blocks["axes"] = json::array({"batch", "seqlen", "blocks"});
  by_blocks["rows"] =
      json::array({{{"at", json::array({1, 1, 2})}, {"times_us", {{"many", 1.0}, {"other", 2.0}}}}});
  files.put_table("stamp", {by_blocks, stamp_group({row(1, 1, {{"other", 1.0}, {"many", 4.0}})})});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  for (const int blocks : {2, 64}) CHECK(run(on, {.blocks = blocks}) == 3);
  CHECK_THAT(files.log(), has_text("/variants/0/cost: 'blocks * blocks' goes by the argument 'blocks'") &&
                              has_text("/groups/0/axes/2: 'blocks' goes by the argument 'blocks'"));
}

TEST_CASE("calls that differ in conditions alone have plans of their own, which are all found") {
  const disk files;
  std::vector<json> variants;
  std::vector<std::string> conditions;
  for (int blocks = 1; blocks <= 6; ++blocks) {
    conditions = {"blocks==" + std::to_string(blocks)};
    variants.push_back(requiring("b" + std::to_string(blocks), blocks, conditions));
  }
  variants.push_back(stamp_variant("any", 100));
  files.put_manifest("stamp", variants);
  auto options = files.options();
  options.plan_capacity = 64;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  for (int round = 0; round < 2; ++round) {
    const std::uint64_t before = allocations_of_this_thread();
    for (std::int64_t batch = 1; batch <= 8; ++batch) {
      for (int blocks = 7; blocks >= 1; --blocks)
        CHECK(run(on, {.batch = batch, .blocks = blocks}) == (blocks == 7 ? 100 : blocks));
    }
    if (round == 1) CHECK(allocations_of_this_thread() == before);
  }
}
