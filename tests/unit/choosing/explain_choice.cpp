// SPDX-License-Identifier: MIT
// What explain() and explain_failure() say of selectors selector_of from manifests and tables.
#include <atomic>
#include <catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_expression.hpp>

#include "sample_tables.hpp"

namespace explained {

using namespace switchyard;
using sample_tables::add_row;
using sample_tables::card;
using sample_tables::empty_table;

variant named_variant(const std::string& id, std::vector<axis_value> type = {}) {
  variant out;
  out.id = id;
  out.type = std::move(type);
  out.launches.resize(1);
  return out;
}

condition parsed_condition(const std::string& text) {
  return {text, expression::parse(text, detail::make_scope(sample::description()))};
}

std::shared_ptr<manifest> manifest_with_variants(std::vector<variant> variants) {
  auto out = std::make_shared<manifest>();
  out->path = "kernels/scale/manifest.json";
  out->target = {"cuda", "sm_90a"};
  out->variants = std::move(variants);
  return out;
}

selector_sources sources_with(std::vector<variant> variants,
                              std::vector<std::shared_ptr<const table>> tables = {}) {
  return {&sample::description(), card(), {manifest_with_variants(std::move(variants))}, {},
          std::move(tables),      ""};
}

std::shared_ptr<const selector> selector_of(const selector_sources& sources) {
  std::vector<std::string> warned;
  auto out = build_selector(sources, warned);
  CHECK(warned.empty());
  return out;
}

TEST_CASE("an explanation names manifest, config, launches, table, row and every candidate") {
  variant split = named_variant("split");
  split.config = {{"block_m", 64}, {"stages", 3}};
  split.workspace = {{"partial", {}}, {"flags", {}}};
  split.launches.resize(3);
  split.launches[0].is_fill = true;
  split.launches[0].fill_workspace = 1;
  split.launches[1].kernel = "split_kernel";
  split.launches[1].blob = "a.cubin";
  split.launches[2].kernel = "join";
  split.launches[2].blob = "b.cubin";
  variant plain = named_variant("plain");
  plain.config = {{"block_m", 16}};
  auto first = empty_table({"plain"});
  first->path = "first.json";
  add_row(first->groups[0], 1, 1, {5});
  auto second = empty_table({"split", "plain"});
  second->path = "second.json";
  second->groups.insert(second->groups.begin(), row_group{});
  second->groups[1].source_group = 1;
  second->groups[1].type = {{0, 1}};
  add_row(second->groups[1], 4, 64, {9, 3});
  add_row(second->groups[1], 8, 128, {2, 3});
  const auto rules = selector_of(sources_with({plain, split}, {first, second}));
  const auto problem = sample::problem({{"dtype", 1}, {"rows", 8}, {"columns", 128}});
  const explanation why = explain(*rules, problem, rules->select(problem));
  CHECK(why.operator_name == "scale");
  CHECK(why.problem == format_problem(sample::description(), problem));
  CHECK(why.device == "Card 90 (cuda sm_90)");
  CHECK(why.variant == "split");
  CHECK(why.config == "block_m=64,stages=3");
  CHECK(why.target == "cuda sm_90a");
  CHECK(why.manifest == "kernels/scale/manifest.json");
  CHECK(why.launches ==
        std::vector<std::string>{"fill of flags", "split_kernel of a.cubin", "join of b.cubin"});
  CHECK(why.table == "second.json");
  CHECK(why.table_group == 1);
  CHECK(why.table_row == 1);
  CHECK(why.row_at == "rows=8 columns=128");
  CHECK(why.note.empty());
  REQUIRE(why.candidates.size() == 2);
  CHECK(why.candidates[0].variant == "plain");
  CHECK(why.candidates[0].config == "block_m=16");
  CHECK(why.candidates[0].target == "cuda sm_90a");
  CHECK(why.candidates[0].admissible);
  CHECK(why.candidates[0].microseconds == 3);
  CHECK(why.candidates[1].microseconds == 2);
  CHECK_THAT(to_string(why),
             has_text("exact: row 1 of group 1 of second.json (rows=8 columns=128), measured 2"));

  // Without rows nothing of a table is said, nor any time.
  const auto other = sample::problem({{"dtype", 1}});
  const explanation bare = explain(*selector_of(sources_with({plain, split})), other,
                                   selector_of(sources_with({plain, split}))->select(other));
  CHECK(bare.variant == "plain");
  CHECK(bare.table.empty());
  CHECK(bare.row_at.empty());
  CHECK(bare.candidates[0].microseconds == 0);
}

TEST_CASE("pins and forcing are explained by their reason and their variable") {
  auto measured = empty_table({"a", "b"});
  add_row(measured->groups[0], 8, 8, {1, 2});
  measured->pins = {{"a", "other", {}, {{5, 99, 99}}}, {"b", "by hand", {}, {}}};
  selector_sources sources = sources_with({named_variant("a"), named_variant("b")}, {measured});
  const auto problem = sample::problem({{"rows", 8}, {"columns", 8}});
  const auto pinned = selector_of(sources);
  explanation why = explain(*pinned, problem, pinned->select(problem));
  CHECK(why.variant == "b");
  CHECK(why.table == "table.json");
  CHECK(why.note == "by hand");
  sources.force = "a";
  const auto forced = selector_of(sources);
  why = explain(*forced, problem, forced->select(problem));
  CHECK(why.variant == "a");
  CHECK(why.table.empty());
  CHECK(why.note == "SWITCHYARD_FORCE=scale:a");
  CHECK(format_reason(why) == "forced: SWITCHYARD_FORCE=scale:a");
}

TEST_CASE("a growth within half a per cent is not worth words") {
  explanation why;
  why.chosen.why = reason::interpolated;
  for (const auto& [growth, is_said] : std::vector<std::pair<float, bool>>{
           {0.0F, false}, {0.5F, true}, {0.994F, true}, {0.996F, false}, {1.004F, false}, {1.006F, true}}) {
    INFO(growth);
    why.chosen.growth = growth;
    CHECK((format_reason(why).find("its cost here") != std::string::npos) == is_said);
  }
}

TEST_CASE("each rule that keeps a candidate from serving is named, the first one that does") {
  variant typed = named_variant("typed", {{0, 1}, {2, 1}});
  variant conditional = named_variant("conditional");
  conditional.conditions = {parsed_condition("columns >= 0"), parsed_condition("8 / rows > 1"),
                            parsed_condition("rows > 2")};
  variant large = named_variant("large");
  large.launches[0].shared_bytes = parsed_condition("rows * 16").value;
  variant huge = named_variant("huge");
  huge.launches[0].shared_bytes = parsed_condition("1025").value;
  auto denying = empty_table({"denied"});
  denying->groups.clear();
  denying->denials = {{"denied", "", {{2, 1}}}, {"denied", "wrong for f32", {{0, 2}}}};
  selector_sources sources =
      sources_with({typed, conditional, large, huge, named_variant("denied")}, {denying});
  sources.device.set("shared_bytes_per_block", 1024);
  const auto rules = selector_of(sources);
  const auto obstacle = [&](std::uint32_t index, const std::vector<std::int64_t>& problem,
                            unusable_flags unusable = {}) {
    std::string out = detail::find_obstacle(*rules, index, problem, unusable);
    CHECK(rules->admissible(index, problem, unusable) == out.empty());
    return out;
  };
  const auto f16 = sample::problem({{"rows", 3}});
  const auto bf16 = sample::problem({{"dtype", 1}, {"rows", 64}});
  CHECK(obstacle(0, f16) == "serves dtype=bf16, not f16");
  CHECK(obstacle(0, bf16) == "serves masked=true, not false");
  CHECK(obstacle(0, sample::problem({{"dtype", 1}, {"masked", 1}})).empty());
  CHECK(obstacle(1, f16).empty());
  CHECK(obstacle(1, bf16) == "requires 8 / rows > 1");
  CHECK(obstacle(1, sample::problem({{"rows", 0}})) == "requires 8 / rows > 1, which divides by zero");
  CHECK(obstacle(1, sample::problem({{"rows", 2}})) == "requires rows > 2");
  CHECK(obstacle(1, sample::problem({{"rows", 2}, {"columns", -1}})) == "requires columns >= 0");
  CHECK(obstacle(2, bf16).empty());
  CHECK(obstacle(2, sample::problem({{"rows", 65}})) ==
        "needs more shared memory than the 1024 bytes a block can have");
  CHECK_THAT(obstacle(2, sample::problem({{"rows", INT64_MAX}})), has_text("needs more shared memory"));
  CHECK_THAT(obstacle(3, f16), has_text("needs more shared memory than the 1024 bytes"));
  CHECK_THAT(detail::find_obstacle(*rules, 3, f16, {}, true), has_text("needs more shared memory"));
  CHECK(obstacle(4, f16).empty());
  CHECK(obstacle(4, sample::problem({{"masked", 1}})) == "denied by table.json");
  CHECK(obstacle(4, sample::problem({{"dtype", 2}})) == "denied by table.json: wrong for f32");
  std::vector<std::atomic<bool>> unusable(4);
  unusable[1] = true;
  CHECK(obstacle(1, f16, unusable) == "could not be loaded; see the warning");
  CHECK(obstacle(2, f16, unusable).empty());
  CHECK(obstacle(4, f16, unusable).empty());  // beyond the flags
}

TEST_CASE("where nothing serves, the three that come nearest are named in the manifest's order") {
  std::vector<variant> variants{named_variant("two", {{0, 2}, {2, 1}})};
  for (const char* id : {"one", "uno", "une", "eins"}) variants.push_back(named_variant(id, {{0, 2}}));
  const auto rules = selector_of(sources_with(variants));
  CHECK(explain_failure(*rules, sample::problem({})) ==
        "scale {" + format_problem(sample::description(), sample::problem({})) +
            "} on Card 90 (cuda sm_90): none of 5 variants serves it. Nearest: one (serves dtype=f32, not "
            "f16); uno "
            "(serves dtype=f32, not f16); une (serves dtype=f32, not f16); change the call, or install a "
            "variant "
            "that serves it");
  variants = {variants[1], variants[0]};
  variants[0].type = {{0, 2}, {1, 1}, {2, 1}};
  CHECK_THAT(explain_failure(*selector_of(sources_with(variants)), sample::problem({})),
             has_text("none of 2 variants serves it. Nearest: two (serves dtype=f32, not f16); change"));
  // One whose type fits and whose condition fails is nearer than one of another type.
  variants[0].type = {};
  variants[0].conditions = {parsed_condition("rows > 2")};
  CHECK_THAT(explain_failure(*selector_of(sources_with(variants)), sample::problem({})),
             has_text("Nearest: one (requires rows > 2); change"));
}

TEST_CASE("what is forced in vain, and kernels that are missing, are explained") {
  selector_sources sources = sources_with({named_variant("small", {{0, 1}}), named_variant("medium")});
  sources.force = "smal";
  CHECK_THAT(
      explain_failure(*selector_of(sources), sample::problem({})),
      has_text("SWITCHYARD_FORCE asks for 'smal', which is no variant; these would serve the call: medium"));
  CHECK_THAT(
      explain_failure(*selector_of(sources), sample::problem({{"dtype", 1}})),
      has_text("which is no variant; did you mean 'small'?; these would serve the call: small, medium"));
  sources.force = "small";
  CHECK_THAT(explain_failure(*selector_of(sources), sample::problem({})),
             has_text("asks for 'small', which may not serve it: small serves dtype=bf16, not f16; unset the "
                      "variable, or force another variant"));
  sources.force.clear();
  sources.device.arch = "sm_80";
  CHECK_THAT(explain_failure(*selector_of(sources), sample::problem({})),
             has_text("none of the installed kernels runs on this device; they are built for cuda "
                      "sm_90a. Build them "
                      "for sm_80"));
  sources.manifests.clear();
  CHECK_THAT(
      explain_failure(*selector_of(sources), sample::problem({})),
      has_text("no manifest of this operator was found. Install its kernels (a CMake subproject builds "
               "them only with SWITCHYARD_BUILD_KERNELS=ON), or name their root in SWITCHYARD_PATH"));
}

TEST_CASE("a sentence is one line, and only what is known stands in it") {
  explanation why;
  why.operator_name = "scale";
  why.device = "a\nb";
  why.chosen.why = reason::heuristic;
  why.variant = "v";
  why.target = "cuda sm_90a";
  CHECK(to_string(why).find('\n') == std::string::npos);
  CHECK_THAT(to_string(why), has_text(": v [cuda sm_90a], heuristic: "));
  CHECK(to_string(why).find(" us") == std::string::npos);
  why.chosen.microseconds = 2;
  CHECK_THAT(to_string(why), has_text(", predicted 2 us"));
  why.variant.clear();
  CHECK(to_string(why).find('\n') == std::string::npos);
}

}  // namespace explained
