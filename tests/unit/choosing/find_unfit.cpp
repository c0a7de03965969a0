// SPDX-License-Identifier: MIT
// Why a variant cannot be computed for a problem, and the choice that a call comes to without it.
#include <array>
#include <atomic>
#include <catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>

#include "sample_tables.hpp"

namespace unfit {

using namespace switchyard;
using sample_tables::add_row;
using sample_tables::card;
using sample_tables::empty_table;

/// A variant as a manifest states it. `more` is a member of its launch, or of the variant itself.
std::string entry(const std::string& id, const std::string& of_launch = {},
                  const std::string& of_variant = {}) {
  std::string launch = "\"blob\": \"b\", \"sha256\": \"" + std::string(64, 'a') + "\", \"kernel\": \"k\"";
  const std::array<std::pair<std::string, std::string>, 3> usual{
      {{"grid", "[1, 1, 1]"}, {"block", "[32, 1, 1]"}, {"parameters", "[]"}}};
  for (const auto& [key, value] : usual) {
    if (of_launch.find('"' + key + '"') == std::string::npos) launch += ", \"" + key + "\": " + value;
  }
  if (!of_launch.empty()) launch += ", " + of_launch;
  return R"x({"id": ")x" + id + R"x(", "type": {})x" + (of_variant.empty() ? "" : ", " + of_variant) +
         R"x(, "launches": [{)x" + launch + "}]}";
}

std::shared_ptr<const manifest> manifest_of(const std::vector<std::string>& entries) {
  std::string list;
  for (const std::string& entry : entries) list += (list.empty() ? "" : ", ") + entry;
  warnings warned;
  auto out = std::make_shared<const manifest>(parse_manifest(
      R"x({"schema": "switchyard.manifest/1", "operator": "scale", "target": {"backend": "cuda", "arch": "sm_90a"},
          "variants": [)x" +
          list + "]}",
      "m.json", sample::description(), warned));
  CHECK(warned.messages.empty());
  REQUIRE(out->variants.size() == entries.size());
  return out;
}

std::shared_ptr<const selector> rules_of(const std::vector<std::string>& entries,
                                         std::vector<std::shared_ptr<const table>> tables = {}) {
  std::vector<std::string> warned;
  return build_selector({&sample::description(), card(), {manifest_of(entries)}, {}, std::move(tables), ""},
                        warned);
}

std::string why(const std::string& of_launch, std::int64_t rows, const std::string& of_variant = {}) {
  const auto rules = rules_of({entry("v", of_launch, of_variant)});
  return detail::find_unfit(*rules, *rules->candidates[0].variant, sample::problem({{"rows", rows}}));
}

TEST_CASE("what cannot be computed is named with its expression") {
  struct sample {
    const char* of_launch;
    const char* of_variant;
    const char* message;
  };
  for (const sample& given : {
           sample{R"x("grid": ["rows / 0", 1, 1])x", "", "grid \"rows / 0\" divides by zero"},
           sample{R"x("grid": [1, "columns % (rows - 4)"])x", "",
                  "grid \"columns % (rows - 4)\" divides by zero"},
           sample{R"x("grid": ["1 - rows"])x", "", "grid would be -3 (\"1 - rows\")"},
           sample{R"x("grid": [4294967296])x", "", "grid would be 4294967296"},
           sample{R"x("grid": ["9223372036854775807 * rows"])x", "",
                  "grid \"9223372036854775807 * rows\" overflows 64 bits"},
           sample{R"x("grid": [1, 1, "rows * 16384"])x", "",
                  "kernel 'k': the grid would be 1x1x65536, which is more than Card 90 takes"},
           sample{R"x("block": ["rows / (rows - 4)"])x", "", "block \"rows / (rows - 4)\" divides by zero"},
           sample{R"x("block": ["rows * 512"])x", "",
                  "kernel 'k': a block would have 2048x1x1 threads; a device takes at most 1024"},
           sample{R"x("cluster": ["0 - rows"])x", "", "cluster would be -4 (\"0 - rows\")"},
           sample{R"x("shared_bytes": "1 << (rows * 32)")x", "",
                  "shared_bytes \"1 << (rows * 32)\" takes a function or a shift out of its range"},
           sample{R"x("shared_bytes": "0 - rows")x", "", "shared_bytes would be -4 (\"0 - rows\")"},
           sample{R"x("parameters": [{"i8": "rows * 32"}])x", "",
                  "parameter {\"i8\":\"rows * 32\"} would be 128, which does not fit"},
           sample{R"x("parameters": [{"struct": ["x", {"i64": "1 / (rows - 4)"}]}])x", "",
                  "parameter {\"i64\":\"1 / (rows - 4)\"} divides by zero"},
           sample{"", R"x("workspace": {"sums": "8 / (rows - 4)"})x",
                  "workspace 'sums' \"8 / (rows - 4)\" divides by zero"},
           sample{"", R"x("workspace": {"sums": "3 - rows"})x",
                  "workspace 'sums' would take -1 bytes (\"3 - rows\")"},
           sample{"", R"x("workspace": {"sums": "rows << 45"})x",
                  "workspace 'sums' would take 140737488355328 bytes (\"rows << 45\")"},
       }) {
    INFO(given.of_launch << given.of_variant);
    CHECK(why(given.of_launch, 4, given.of_variant) == given.message);
  }
}

TEST_CASE("what fits gives no reason, nor does an empty grid of blocks that no device has") {
  CHECK(why("", 4).empty());
  CHECK(why(R"x("grid": ["rows / (rows - 4)"])x", 5).empty());
  CHECK(why(R"x("grid": [2147483647, 65535, "rows"])x", 65535).empty());
  CHECK(why(R"x("block": ["rows", 1, 1])x", 1024).empty());
  CHECK(why(R"x("grid": [0], "block": [4096])x", 4).empty());
}

TEST_CASE("a workspace that is more than the device's memory is named with both") {
  selector_sources sources{&sample::description(),
                           card(),
                           {manifest_of({entry("v", "", R"x("workspace": {"a": "rows", "b": 1})x")})},
                           {},
                           {},
                           ""};
  sources.device.set("memory_bytes", 1024);
  std::vector<std::string> warned;
  const auto rules = build_selector(sources, warned);
  const auto of = [&](std::int64_t rows) {
    return detail::find_unfit(*rules, *rules->candidates[0].variant, sample::problem({{"rows", rows}}));
  };
  CHECK(of(768).empty());
  CHECK(of(769) == "the workspace would take 1280 bytes; the device has 1024");
}

TEST_CASE("the choice that a call comes to passes over what cannot be computed, and says why") {
  auto measured = empty_table({"fast", "slow", "last"});
  add_row(measured->groups[0], 4, 64, {1, 2, 3});
  const auto rules = rules_of({entry("fast", R"x("grid": ["8 / (rows - 4)"])x"),
                               entry("slow", R"x("grid": ["rows - 5"])x"), entry("last")},
                              {measured});
  const auto problem = sample::problem({{"rows", 4}, {"columns", 64}});
  CHECK(rules->candidates[rules->select(problem).variant].variant->id == "fast");
  const choice chosen = select_fitting(*rules, problem);
  const explanation said = explain(*rules, problem, chosen);
  CHECK(said.variant == "last");
  CHECK(said.chosen.why == reason::exact);
  CHECK(said.chosen.microseconds == 3);
  CHECK_FALSE(said.candidates[0].admissible);
  CHECK(said.candidates[0].passed_over);
  CHECK(said.candidates[0].obstacle == "grid \"8 / (rows - 4)\" divides by zero");
  CHECK(said.candidates[1].obstacle == "grid would be -1 (\"rows - 5\")");
  CHECK(said.candidates[2].admissible);
  CHECK_FALSE(said.candidates[2].passed_over);

  // For other sizes the same variants fit.
  const auto other = sample::problem({{"rows", 6}, {"columns", 64}});
  CHECK(explain(*rules, other, select_fitting(*rules, other)).variant == "fast");

  // What is out of service stays out, and nothing may be left.
  std::vector<std::atomic<bool>> unusable(3);
  unusable[2] = true;
  CHECK(select_fitting(*rules, problem, unusable).variant == no_index);
  CHECK_THAT(explain_failure(*rules, problem, unusable),
             has_text("fast (grid \"8 / (rows - 4)\" divides by zero)"));
}

TEST_CASE("shared memory without a value is not called too much") {
  selector_sources sources{&sample::description(),
                           card(),
                           {manifest_of({entry("v", R"x("shared_bytes": "64 / (rows - 4)")x")})},
                           {},
                           {},
                           ""};
  sources.device.set("shared_bytes_per_block", 1024);
  std::vector<std::string> warned;
  const auto rules = build_selector(sources, warned);
  const auto problem = sample::problem({{"rows", 4}});
  CHECK(rules->select(problem).variant == no_index);
  CHECK(detail::find_obstacle(*rules, 0, problem, {}) == "shared_bytes divides by zero");
}

TEST_CASE("rows are not stale where no blob is there that could have changed") {
  auto measured = empty_table({"a"});
  add_row(measured->groups[0], 4, 64, {1});
  measured->groups[0].blobs[0] = std::string(16, 'a');
  auto named = std::make_shared<manifest>();
  named->target = {"cuda", "sm_90a"};
  named->variants.resize(1);
  named->variants[0].id = "a";
  std::vector<std::string> warned;
  const auto bare = build_selector({&sample::description(), card(), {named}, {}, {measured}, ""}, warned);
  const auto problem = sample::problem({{"rows", 4}, {"columns", 64}});
  CHECK_FALSE(bare->select(problem).stale);
  CHECK_FALSE(rules_of({entry("a")}, {measured})->select(problem).stale);
  measured->groups[0].blobs[0] = std::string(16, 'b');
  CHECK(rules_of({entry("a")}, {measured})->select(problem).stale);
}

TEST_CASE("rows of variants that are not installed say so") {
  auto measured = empty_table({"gone"});
  add_row(measured->groups[0], 4, 64, {1});
  const auto rules = rules_of({entry("here")}, {measured});
  const auto problem = sample::problem({{"rows", 4}, {"columns", 64}});
  CHECK_THAT(explain(*rules, problem, rules->select(problem)).note,
             has_text("no variant in the rows of group 0 of table.json is installed for this device"));
}

}  // namespace unfit
