// SPDX-License-Identifier: MIT
// Rules that are read kind by kind choose what rules that are read whole choose.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/serving/file_selectors.hpp>

#include "../../environment.hpp"
#include "../choosing/sample_tables.hpp"
#include "../sample_operator.hpp"
#include "sanitized.hpp"

using namespace switchyard;

namespace {

using nlohmann::json;

json json_variant(const std::string& id, const json& type, const json& members = json::object()) {
  json out = members;
  out["id"] = id;
  out["type"] = type;
  out["launches"] = {{{"blob", id + ".cubin"},
                      {"sha256", std::string(64, 'b')},
                      {"kernel", "k"},
                      {"grid", {1}},
                      {"block", {1}},
                      {"parameters", json::array()}}};
  return out;
}

json json_manifest(const json& variants, const std::string& arch = "sm_90a") {
  return {{"schema", "switchyard.manifest/1"},
          {"operator", "scale"},
          {"target", {{"backend", "cuda"}, {"arch", arch}}},
          {"variants", variants}};
}

json json_table(const json& groups) {
  return {{"schema", "switchyard.table/1"},
          {"operator", "scale"},
          {"device", {{"backend", "cuda"}, {"arch", "sm_90"}, {"name", "Card 90"}}},
          {"groups", groups}};
}

/// The same files as text that is read when it is needed, and read whole.
class both {
 public:
  both(const std::vector<json>& manifests, const std::vector<json>& tables, const std::string& force = "") {
    selector_sources sources{&sample::description(), sample_tables::card(), {}, {}, {}, force};
    operator_files files;
    int number = 0;
    for (const json& document : manifests) {
      const std::string path = "m" + std::to_string(number++) + ".json";
      files.manifests.push_back(
          std::make_shared<const manifest_file>(document.dump(), path, sample::description(), of_reading));
      sources.manifests.push_back(std::make_shared<const manifest>(
          parse_manifest(document.dump(), path, sample::description(), of_parsing_)));
    }
    for (const json& document : tables) {
      const std::string path = "t" + std::to_string(number++) + ".json";
      files.tables.push_back(
          std::make_shared<const table_file>(document.dump(), path, sample::description(), of_reading));
      sources.tables.push_back(std::make_shared<const table>(
          parse_table(document.dump(), path, sample::description(), of_parsing_)));
    }
    whole = build_selector(sources, of_whole);
    rules = std::make_unique<file_selectors>(
        sample::description(), sample_tables::card(), files, force,
        file_selectors::listener{[this](const warnings& said, const std::string&) {
                                   for (const std::string& message : said.messages) of_reading.add(message);
                                 },
                                 [this](const std::vector<std::string>& said) {
                                   of_building.insert(of_building.end(), said.begin(), said.end());
                                 }});
  }

  warnings of_reading;
  std::vector<std::string> of_building;
  std::vector<std::string> of_whole;
  std::shared_ptr<const selector> whole;
  std::unique_ptr<file_selectors> rules;

 private:
  warnings of_parsing_;
};

constexpr std::array<std::string_view, 3> dtypes{"f16", "bf16", "f32"};
constexpr std::array<std::string_view, 3> layouts{"dense", "packed", "paged"};

json random_type(std::mt19937& random, bool full) {
  json out = json::object();
  if (full || random() % 2 == 0) out["dtype"] = dtypes[random() % 3];
  if (full || random() % 2 == 0) out["layout"] = layouts[random() % 3];
  if (random() % 3 == 0) out["masked"] = random() % 2 == 0;
  if (random() % 3 == 0) out["width"] = 64 * (1 + random() % 2);
  return out;
}

}  // namespace

TEST_CASE("rules that are read kind by kind choose as rules that are read whole") {
  const std::uint32_t seed = switchyard::test::fresh_seed();
  INFO("SWITCHYARD_TEST_SEED=" << seed);
  std::mt19937 random{seed};
  std::size_t by_rows = 0;
  constexpr std::size_t rounds = ::test::sanitized ? 15 : 60;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<json> manifests;
    std::vector<std::string> ids;
    for (const char* const arch : {"sm_90a", "sm_90", "sm_100"}) {
      json variants = json::array();
      for (std::size_t i = 2 + random() % 10; i > 0; --i) {
        // An id has one variant: of several, rules read whole take the cost of one that may be of another
        // kind.
        const std::string id = "v" + std::to_string(ids.size());
        ids.push_back(id);
        json members = json::object();
        if (random() % 3 == 0) members["requires"] = {"rows % 2 == 0"};
        if (random() % 2 == 0) members["cost"] = "rows * columns + " + std::to_string(random() % 1000);
        variants.push_back(json_variant(id, random_type(random, false), members));
      }
      manifests.push_back(json_manifest(variants, arch));
    }
    json groups = json::array();
    for (int g = 0; g < 6; ++g) {
      json rows = json::array();
      for (int r = 0; r < 5; ++r) {
        json times = json::object();
        for (const std::string& id : ids) times[id] = 1.0 + static_cast<double>(random() % 1000);
        rows.push_back({{"at", {1 + random() % 64, 1 + random() % 64}}, {"times_us", times}});
      }
      groups.push_back({{"type", random_type(random, true)}, {"axes", {"rows", "columns"}}, {"rows", rows}});
    }
    json table = json_table(groups);
    if (round % 3 == 0) table["pin"] = json::array({{{"variant", ids[0]}, {"type", {{"dtype", "f16"}}}}});
    if (round % 4 == 0) table["deny"] = json::array({{{"variant", ids[1]}, {"type", {{"masked", true}}}}});
    const both files{manifests, {table}, round % 7 == 0 ? ids[2] : ""};
    for (int i = 0; i < 100; ++i) {
      const auto problem = sample::problem({{"dtype", random() % 4},
                                            {"layout", random() % 3},
                                            {"masked", random() % 2},
                                            {"width", 64 * (random() % 4)},
                                            {"rows", 1 + random() % 80},
                                            {"columns", 1 + random() % 80}});
      const auto of_kind = files.rules->read(files.rules->signature_of(problem));
      const choice narrow = of_kind->select(problem);
      const choice wide = files.whole->select(problem);
      INFO(format_problem(sample::description(), problem));
      REQUIRE(narrow.why == wide.why);
      REQUIRE((narrow.variant == no_index) == (wide.variant == no_index));
      if (wide.variant == no_index) {
        if (files.whole->is_forced) continue;
        CHECK(files.rules->explain_failure(problem, *of_kind, {}) == explain_failure(*files.whole, problem));
        continue;
      }
      const candidate& a = of_kind->candidates[narrow.variant];
      const candidate& b = files.whole->candidates[wide.variant];
      CHECK(a.variant->id == b.variant->id);
      CHECK(a.from->path == b.from->path);
      CHECK(a.variant->type == b.variant->type);
      CHECK(narrow.microseconds == wide.microseconds);
      CHECK(narrow.distance == wide.distance);
      CHECK(format_reason(explain(*of_kind, problem, narrow)) ==
            format_reason(explain(*files.whole, problem, wide)));
      by_rows += wide.group != no_index ? 1 : 0;
    }
    CHECK(files.of_building.empty());
    CHECK(files.of_whole.empty());
  }
  CHECK(by_rows > 3 * rounds);
}

TEST_CASE("only what a kind needs is read") {
  json bad = json_variant("bad", {{"dtype", "f16"}});
  bad["launches"] = json::array();
  both files{{json_manifest(json::array(
                 {json_variant("good", {{"dtype", "f32"}}), bad, json_variant("any", json::object())}))},
             {json_table(json::array({{{"type", {{"dtype", "f16"}}},
                                       {"axes", json::array({"rows"})},
                                       {"rows", json::array({{{"at", json::array({1})}}})}}}))}};
  CHECK(files.of_reading.messages.empty());
  const auto f32 = static_cast<std::int64_t>(dtype::f32);
  const auto f16 = static_cast<std::int64_t>(dtype::f16);
  const auto of_f32 = files.rules->read(files.rules->signature_of(sample::problem({{"dtype", f32}})));
  CHECK(of_f32->candidates.size() == 2);
  CHECK(files.of_reading.messages.empty());
  const auto of_f16 = files.rules->read(files.rules->signature_of(sample::problem({{"dtype", f16}})));
  CHECK(of_f16->candidates.size() == 1);
  CHECK(files.of_reading.messages.size() == 2);  // of the variant and of the row
  CHECK(of_f16->candidates[0].variant->id == "any");
}

TEST_CASE("an id that another kind or another target has is not unknown") {
  const json row = {{"at", {1, 1}}, {"times_us", {{"mine", 1.0}, {"others", 2.0}, {"foreign", 3.0}}}};
  both files{
      {json_manifest(json::array(
           {json_variant("mine", {{"dtype", "f32"}}), json_variant("others", {{"dtype", "f16"}})})),
       json_manifest(json::array({json_variant("foreign", json::object())}), "sm_100")},
      {json_table(json::array(
          {{{"type", json::object()}, {"axes", {"rows", "columns"}}, {"rows", json::array({row})}}}))}};
  (void)files.rules->read(files.rules->signature_of(sample::problem({{"dtype", 0}})));
  CHECK(files.of_building.empty());
}

TEST_CASE("a variant that is forced and serves another kind is named with what keeps it") {
  both files{{json_manifest(json::array({json_variant("mine", {{"layout", "dense"}}),
                                         json_variant("wanted", {{"layout", "paged"}})}))},
             {},
             "wanted"};
  const auto problem = sample::problem({{"layout", 0}});
  const auto rules = files.rules->read(files.rules->signature_of(problem));
  CHECK(rules->select(problem).variant == no_index);
  CHECK_THAT(files.rules->explain_failure(problem, *rules, {}),
             has_text("'wanted', which may not serve it: wanted serves layout=paged, not dense"));
}
