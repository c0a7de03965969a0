// SPDX-License-Identifier: MIT
// The corpus of bad files: each must be answered with the right error, at the right place, with a remedy, and
// must leave the rest serving.
#include <algorithm>
#include <catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/problem/added_axes.hpp>

#include "../temporary.hpp"
#include "corpus/bad_files.hpp"
#include "sanitized.hpp"

namespace sy = switchyard;

namespace {

const std::string corpus_folder = SWITCHYARD_CORPUS;
const ::test::bad_files corpus{corpus_folder};

const sy::operator_description& rotary() {
  static sy::added_axes axes{sy::describe<sy::operators::rotary>()};  // as a catalog reads files
  return axes.live();
}

const std::string good_manifest =
    R"({"schema": "switchyard.manifest/1", "operator": "rotary", "target": {"backend": "host", "arch": "any"},
        "variants": [{"id": "good", "launches": [{"blob": "rotary.so", "sha256": ")" +
    std::string(64, '0') + R"(", "kernel": "k", "grid": [1], "block": [1], "parameters": []}]}]})";

/// What reading a file, and building a selector with it, says; and what of it serves.
struct outcome {
  std::vector<std::string> said;
  bool refused = false;
  std::vector<std::string> variants;
  std::size_t rows = 0;
  std::shared_ptr<const sy::selector> rules;
};

/// Reads a manifest or a table as a whole, or outlines it first and then reads each of its entries.
enum class how_read { whole, outlined };

std::shared_ptr<const sy::manifest> manifest_at(const std::string& path, how_read how, sy::warnings& warned) {
  if (how == how_read::whole)
    return std::make_shared<const sy::manifest>(sy::read_manifest(path, rotary(), warned));
  return sy::manifest_file{sy::read_file(path, sy::max_json_bytes), path, rotary(), warned}.read_all(warned);
}

std::shared_ptr<const sy::table> table_at(const std::string& path, how_read how, sy::warnings& warned) {
  if (how == how_read::whole)
    return std::make_shared<const sy::table>(sy::read_table(path, rotary(), warned));
  return sy::table_file{sy::read_file(path, sy::max_json_bytes), path, rotary(), warned}.read_all(warned);
}

outcome read(const std::string& path, bool is_table, how_read how = how_read::whole) {
  outcome out;
  sy::warnings warned;
  sy::selector_sources sources;
  sources.op = &rotary();
  sources.device.backend = "host";
  sources.device.arch = "any";
  sources.device.name = "corpus";
  try {
    if (is_table) {
      sources.manifests.push_back(std::make_shared<const sy::manifest>(
          sy::parse_manifest(good_manifest, "good.json", rotary(), warned)));
      sources.tables.push_back(table_at(path, how, warned));
      for (const sy::row_group& group : sources.tables[0]->groups) out.rows += group.row_count();
    } else {
      sources.manifests.push_back(manifest_at(path, how, warned));
      for (const sy::variant& variant : sources.manifests[0]->variants) out.variants.push_back(variant.id);
    }
  } catch (const sy::file_error& problem) {
    out.refused = true;
    out.said.emplace_back(problem.what());
    return out;
  }
  out.said = warned.messages;
  out.rules = sy::build_selector(sources, out.said);
  return out;
}

std::vector<std::int64_t> sound_problem() {
  std::vector<std::int64_t> out(rotary().axes.size(), 0);
  out[sy::find_axis(rotary(), "dtype")] = static_cast<std::int64_t>(sy::dtype::f32);
  out[sy::find_axis(rotary(), "batch")] = 4;
  out[sy::find_axis(rotary(), "seqlen")] = 128;
  return out;
}

}  // namespace

TEST_CASE(
    "each file of the corpus is answered with its number, its place and a remedy, and the rest serves") {
  const auto cases = corpus.cases();
  REQUIRE(cases.size() > 80);
  const temporary_folder folder;
  for (const auto& sample : cases) {
    const std::string file = sample.at("file");
    const bool is_table = sample.at("kind") == "table";
    INFO(file);
    const std::string path = corpus.write(sample, folder.path());
    const outcome got = read(path, is_table);
    REQUIRE(got.said.size() == 1);
    const std::string& said = got.said[0];
    INFO(said);
    const std::string number = "[switchyard." + std::to_string(sample.at("code").get<int>()) + "] ";
    CHECK(said.starts_with(number + path + ": "));
    for (const auto& part : sample.at("message")) CHECK_THAT(said, has_text(part.get<std::string>()));
    CHECK(said.size() < 1200);
    CHECK(got.refused == sample.at("serves").is_null());
    if (got.refused) continue;
    if (is_table) {
      CHECK(got.rows == sample.at("serves").get<std::size_t>());
    } else {
      CHECK(got.variants == sample.at("serves").get<std::vector<std::string>>());
    }
    const sy::choice chosen = got.rules->select(sound_problem());
    REQUIRE(chosen.variant != sy::no_index);
    CHECK(got.rules->candidates[chosen.variant].variant->id == "good");
    CHECK(chosen.why == (is_table ? sy::reason::exact : sy::reason::heuristic));
  }
}

TEST_CASE("a file that is outlined first is answered with the same words, entry by entry") {
  const auto cases = corpus.cases();
  const temporary_folder folder;
  std::size_t refused_as_a_whole = 0;
  for (const auto& sample : cases) {
    INFO(sample.at("file").get<std::string>());
    const bool is_table = sample.at("kind") == "table";
    const std::string path = corpus.write(sample, folder.path());
    const outcome whole = read(path, is_table);
    const outcome outlined = read(path, is_table, how_read::outlined);
    REQUIRE(outlined.said.size() == 1);
    if (whole.refused && !outlined.refused) {
      // What the outline does not see in an entry costs that entry alone: keys that stand twice, lone
      // surrogates, numbers that are too large.
      ++refused_as_a_whole;
      CHECK_THAT(outlined.said[0], has_text("[switchyard.103]"));
      continue;
    }
    CHECK(outlined.refused == whole.refused);
    CHECK(outlined.said == whole.said);
    CHECK(outlined.variants == whole.variants);
    CHECK(outlined.rows == whole.rows);
  }
  CHECK(refused_as_a_whole <= 4);
}

TEST_CASE("the guide shows what is said of the first file of the corpus for each number") {
  const auto cases = corpus.cases();
  const temporary_folder folder;
  std::map<int, std::string> samples;
  for (const auto& sample : cases) {
    const int number = sample.at("code");
    if (samples.contains(number) || sample.contains("grow")) continue;
    std::string said = read(corpus.write(sample, folder.path()), sample.at("kind") == "table").said.at(0);
    samples[number] = said.erase(said.find(folder.path()), folder.path().size() + 1);
  }
  std::string wanted;
  for (const auto& [number, said] : samples) wanted += "    " + said + "\n";
  INFO(wanted);
  CHECK(samples.size() >= 10);
  CHECK(slurp(corpus_folder + "/../../include/switchyard/README.md").find("\n" + wanted) !=
        std::string::npos);
}

TEST_CASE("every file of the corpus is in its list") {
  std::set<std::string> listed;
  for (const auto& sample : corpus.cases()) listed.insert(sample.at("file"));
  for (const char* folder : {"manifest", "table"}) {
    for (const auto& entry : std::filesystem::directory_iterator{corpus_folder + "/" + folder}) {
      const std::string name = std::string{folder} + "/" + entry.path().filename().string();
      INFO(name);
      CHECK(listed.contains(name));
    }
  }
}

TEST_CASE("a manifest cut off at any byte is refused or read, and nothing else") {
  std::size_t refused = 0;
  for (std::size_t end = 0; end < good_manifest.size(); ++end) {
    sy::warnings warned;
    try {
      (void)sy::parse_manifest(good_manifest.substr(0, end), "cut.json", rotary(), warned);
    } catch (const sy::file_error& problem) {
      REQUIRE(problem.code() == sy::error_code::malformed_json);
      ++refused;
    }
  }
  CHECK(refused == good_manifest.size());
}

TEST_CASE("a file of 4 GB is refused at once") {
  const temporary_folder folder;
  const std::string path = folder.write("huge.json", "{");
  std::filesystem::resize_file(path, std::uintmax_t{4} << 30U);
  const auto begin = std::chrono::steady_clock::now();
  for (const bool is_table : {false, true}) {
    const outcome got = read(path, is_table);
    CHECK(got.refused);
    REQUIRE(got.said.size() == 1);
    CHECK_THAT(got.said[0],
               has_text("[switchyard.102] " + path + ": has 4294967296 bytes; at most 268435456 are read") &&
                   has_text("Split it, or remove entries"));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{2});
}

TEST_CASE("nesting of 10,000 levels is refused, and does not overflow the stack") {
  const temporary_folder folder;
  for (const char* pair : {"[]", "{}"}) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += pair[0] == '[' ? "[" : "{\"a\":";
    text += "1" + std::string(10'000, pair[1]);
    const outcome got = read(folder.write("deep.json", text), false);
    CHECK(got.refused);
    CHECK_THAT(got.said[0],
               has_text("[switchyard.103]") && has_text("nests 10000 levels deep; at most 64 are read"));
  }
}

TEST_CASE("a folder, a missing file and a pipe in place of a file are named") {
  const temporary_folder folder;
  CHECK_THAT(read(folder.path(), true).said[0],
             has_text("[switchyard.101] " + folder.path() + ": is not a regular file"));
  CHECK_THAT(read(folder / "gone.json", true).said[0],
             has_text("[switchyard.101]") && has_text("No such file"));
}

TEST_CASE("a table with a hundred thousand bad rows says a hundred of them and counts the rest") {
  std::string rows = R"({"at": [4, 128], "times_us": {"good": 1}})";
  constexpr std::size_t bad = ::test::at_scale(std::size_t{100'000});
  for (std::size_t i = 0; i < bad; ++i) rows += R"(,{"at":[1]})";
  sy::warnings warned;
  const sy::table out = sy::parse_table(
      R"({"schema": "switchyard.table/1", "operator": "rotary", "groups": [{"axes": ["batch", "seqlen"], "rows": [)" +
          rows + "]}]}",
      "many.json", rotary(), warned);
  CHECK(warned.messages.size() == 100);
  CHECK(warned.left_out == bad - 100);
  CHECK(out.groups.at(0).row_count() == 1);
}

TEST_CASE("absurd names and numbers are answered in time and in short") {
  const std::string name(::test::at_scale(std::size_t{8} << 20U), 'n');
  const auto begin = std::chrono::steady_clock::now();
  sy::warnings warned;
  const auto with = [&](const std::string& variant_members) {
    warned = {};
    std::string text = good_manifest;
    text.insert(text.find("\"id\""), variant_members);
    (void)sy::parse_manifest(text, "absurd.json", rotary(), warned);
    REQUIRE(warned.messages.size() == 1);
    CHECK(warned.messages[0].size() < 2000);
  };
  with("\"type\": {\"" + name + "\": 1},");
  with("\"requires\": [\"" + name + "\"],");
  with("\"config\": {\"tile\": \"" + name + "\"},");
  with("\"type\": {\"dtype\": \"" + name + "\"},");
  with("\"type\": {\"head_dim\": 1e300},");
  with("\"requires\": [\"rotary_dim < " + std::string(4000, '9') + "\"],");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{::test::sanitized ? 30 : 10});
}
