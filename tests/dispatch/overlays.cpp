// SPDX-License-Identifier: MIT
// SWITCHYARD_FORCE, SWITCHYARD_RECORD, SWITCHYARD_TABLES and SWITCHYARD_PATH, as options and in processes of
// their own.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "catch.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
disk with_three_variants() {
  return {"stamp",
          {stamp_variant("one", 1), stamp_variant("two", 2), stamp_variant("half", 3, {{"dtype", "f16"}})},
          {stamp_group({row(1, 128, {{"one", 5.0}, {"two", 9.0}})})}};
}

int run_with_overlay(const disk& files, const std::string& overlay, const stamp::arguments& call) {
  sy::catalog_options options = files.options();
  options.tables = {overlay};
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  return run(on, call);
}

int run_forced(const disk& files, std::vector<sy::forced_choice> forced, const stamp::arguments& call) {
  sy::catalog_options options = files.options();
  options.settings.forced = std::move(forced);
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  const int out = run(on, call);
  CHECK(on.explain(call).chosen.why ==
        (options.settings.forced[0].operator_name == "stamp" ? sy::reason::forced : sy::reason::exact));
  return out;
}

/// Runs the engine in a process of its own and returns what it wrote to its outputs.
std::string run_engine(const std::string& variables, const std::string& arguments, int expected = 0) {
  const disk scratch;
  const std::string out = (scratch.root() / "out").string();
  const std::string command =
      "env " + variables + " '" SWITCHYARD_TEST_ENGINE "' " + arguments + " > '" + out + "' 2>&1";
  const int status =
      std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe): the test's own
  const std::string text = read_text(out);
  INFO(command << "\n" << text);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == expected);
  return text;
}

}  // namespace

TEST_CASE("a choice can be forced by id and by config") {
  const disk files = with_three_variants();
  CHECK(run_forced(files, {{"stamp", "two"}}, {.seqlen = 128}) == 2);
  CHECK(run_forced(files, {{"stamp", "number=2"}}, {.seqlen = 128}) == 2);
  CHECK(run_forced(files, {{"stamp", "tile=16,number=2"}}, {.seqlen = 128}) == 2);
  CHECK(run_forced(files, {{"axpy", "two"}}, {.seqlen = 128}) == 1);
}

TEST_CASE("forcing what does not exist, or may not serve, is an error that lists what would") {
  const disk files = with_three_variants();
  const auto message = [&](const std::string& forced) {
    return sy::test::refusal_by<sy::call_error>(sy::error_code::nothing_forced, [&] {
      return run_forced(files, {{"stamp", forced}}, {.seqlen = 128});
    });
  };
  CHECK_THAT(message("twi"), has_text("'twi'") && has_text("did you mean 'two'") && has_text("one, two"));
  CHECK_THAT(message("number=7"), has_text("which is no variant") && has_text("one, two"));
  CHECK_THAT(message("number=1,tile=16"), has_text("which is no variant"));
  CHECK_THAT(message("half"), has_text("half serves dtype=f16, not f32"));
}

TEST_CASE("SWITCHYARD_FORCE is read for several operators, and refused when it means nothing") {
  const disk files = with_three_variants();
  const std::string path = "SWITCHYARD_PATH=" + files.root().string();
  CHECK_THAT(run_engine(path, "128"), has_text("stamp 1\n"));
  CHECK_THAT(run_engine(path + " 'SWITCHYARD_FORCE=axpy:some;stamp:two'", "128"), has_text("stamp 2\n"));
  CHECK_THAT(run_engine(path + " SWITCHYARD_FORCE=stamp:number=2", "128"), has_text("stamp 2\n"));
  CHECK_THAT(run_engine(path + " SWITCHYARD_FORCE=stamp", "128", 1),
             has_text("[switchyard.304]") && has_text("operator:variant-id"));
  CHECK_THAT(run_engine(path + " SWITCHYARD_FORCE=stamp:three", "128", 1), has_text("[switchyard.303]"));
}

TEST_CASE("the data of the installation is searched after the program's own folder, before the system's") {
  sy::catalog_options options;
  CHECK(options.data.empty());  // a source tree
  options.settings = {};
  options.data = "/opt/engine/share/switchyard";
  sy::catalog catalog{options};
  const auto& roots = catalog.roots();
  const auto place = [&roots](const char* root) {
    return std::find(roots.begin(), roots.end(), root) - roots.begin();
  };
  REQUIRE(roots.size() == 4);
  CHECK(place("/opt/engine/share/switchyard") == 1);
  CHECK(place("/usr/local/share/switchyard") == 2);
  options.default_roots = false;
  CHECK(sy::catalog{options}.roots().empty());
}

TEST_CASE("a variable that cannot have an effect says so") {
  const disk files = with_three_variants();
  const std::string path = "SWITCHYARD_PATH=" + files.root().string();
  CHECK_THAT(run_engine(path + " SWITCHYARD_FORCE=stomp:two", "128"),
             has_text("stamp 1\n") &&
                 has_text("SWITCHYARD_FORCE: no kernels of an operator 'stomp' are installed; did you mean "
                          "'stamp'? (installed: stamp"));
  CHECK_THAT(run_engine(path + ":/no/such/folder", "128"),
             has_text("stamp 1\n") && has_text("SWITCHYARD_PATH: /no/such/folder: is no folder"));
  CHECK(run_engine(path, "128") == "stamp 1\n");
}

TEST_CASE("what is forced where nothing is installed is told with where it was looked for") {
  const disk empty;
  sy::catalog_options options = empty.options();
  options.settings.forced = {{"stamp", "two"}};
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  CHECK_THROWS_WITH(
      run(on, {.seqlen = 128}),
      has_text("[switchyard.303]") &&
          has_text("'two', which is no variant, and without it nothing serves the call either: no "
                   "manifest of this operator was found") &&
          has_text("Searched: " + empty.root().string()));
}

TEST_CASE("SWITCHYARD_DEBUG is read in all its forms") {
  const disk files = with_three_variants();
  const std::string path = "SWITCHYARD_PATH=" + files.root().string();
  const std::string one = run_engine(path + " SWITCHYARD_DEBUG=1", "128 128");
  CHECK(count_of(one, "switchyard: stamp {") == 1);
  CHECK(count_of(one, "switchyard: summary: exact 1") == 1);
  CHECK(count_of(run_engine(path + " SWITCHYARD_DEBUG=2", "128 128"), "switchyard: launch") == 2);
  CHECK(count_of(run_engine(path + " SWITCHYARD_DEBUG=json", "128 128"), R"("event":"choice")") == 1);
  CHECK(count_of(run_engine(path + " SWITCHYARD_DEBUG=2,json", "128 128"), R"("event":"launch")") == 2);
  CHECK(run_engine(path + " SWITCHYARD_DEBUG=0", "128") == "stamp 1\n");
  CHECK(count_of(run_engine(path + " SWITCHYARD_DEBUG=true", "128"), "switchyard: summary: exact 1") == 1);
  const std::string loud = run_engine(path + " SWITCHYARD_DEBUG=loud", "128");
  CHECK_THAT(loud, has_text("stamp 1\n") && has_text("got 'loud'; took it for 1"));
  CHECK(run_engine(
            path + " SWITCHYARD_DEBUG=1 'SWITCHYARD_DEBUG_FILE=" + (files.root() / "d%p.txt").string() + "'",
            "128") == "stamp 1\n");
  int debug_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{files.root()}) {
    if (entry.path().extension() == ".txt") ++debug_files;
  }
  CHECK(debug_files == 1);
}

TEST_CASE("problems are recorded with their counts, which add up across processes") {
  const disk files = with_three_variants();
  const std::string record = (files.root() / "problems.jsonl").string();
  const std::string variables = "SWITCHYARD_PATH=" + files.root().string() + " SWITCHYARD_RECORD=" + record;
  (void)run_engine(variables, "128 128 128 64");
  (void)run_engine(variables, "64 128 32");
  (void)run_engine(variables + " SWITCHYARD_DEBUG=2", "32");
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::string& line : lines_of(read_text(record))) {
    const json entry = json::parse(line);
    CHECK(entry["operator"] == "stamp");
    CHECK(entry["device"] == sy::host::read_properties().name);
    CHECK(entry["problem"]["dtype"] == "f32");
    CHECK(entry["problem"]["head_dim"] == 64);
    counts[entry["problem"]["seqlen"].get<std::int64_t>()] += entry["count"].get<std::int64_t>();
  }
  CHECK(counts == std::map<std::int64_t, std::int64_t>{{32, 2}, {64, 2}, {128, 4}});
}

TEST_CASE("a recording counts every launch, also of plans that were displaced or replaced") {
  const disk files = with_three_variants();
  sy::catalog_options options = files.options();
  options.settings.record = (files.root() / "problems.jsonl").string();
  options.plan_capacity = 4;
  constexpr std::int64_t problems = 100;
  {
    sy::catalog catalog{options};
    sy::dispatcher<stamp> on{catalog, sy::device::host()};
    for (int round = 0; round < 3; ++round) {
      for (std::int64_t i = 1; i <= problems; ++i) {
        for (std::int64_t again = 0; again < i % 3 + 1; ++again) (void)run(on, {.seqlen = i});
      }
      files.put_table("stamp", {stamp_group({row(1, 128 + round, {{"one", 5.0}, {"two", 9.0}})})});
      (void)catalog.reload();
    }
  }
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::string& line : lines_of(read_text(files.root() / "problems.jsonl"))) {
    const json entry = json::parse(line);
    counts[entry["problem"]["seqlen"].get<std::int64_t>()] += entry["count"].get<std::int64_t>();
  }
  REQUIRE(counts.size() == problems);
  for (const auto& [seqlen, count] : counts) CHECK(count == 3 * (seqlen % 3 + 1));
}

TEST_CASE("a record that cannot be written is an error when the catalog is opened") {
  const disk files;
  sy::catalog_options options = files.options();
  options.settings.record = (files.root() / "no/such/folder/file").string();
  CHECK_THROWS_WITH(sy::catalog{options}, has_text("SWITCHYARD_RECORD") && has_text("[switchyard.101]"));
}

TEST_CASE("an overlay's rows win over the tables under it, which keep serving the rest") {
  const disk files = with_three_variants();
  const auto overlay = files.root() / "overlay.json";
  files.write(overlay,
              disk::make_table("stamp", {stamp_group({row(1, 128, {{"two", 1.0}, {"one", 5.0}})})}).dump());
  CHECK(run_with_overlay(files, overlay.string(), {.seqlen = 128}) == 2);
  files.write(overlay,
              disk::make_table("stamp", {stamp_group({row(1, 4096, {{"two", 1.0}, {"one", 5.0}})})}).dump());
  CHECK(run_with_overlay(files, overlay.string(), {.seqlen = 128}) == 1);
  CHECK(run_with_overlay(files, overlay.string(), {.seqlen = 4096}) == 2);
}

TEST_CASE("an overlay may deny and pin, for some types or sizes only, and may be a folder") {
  const disk files = with_three_variants();
  const auto folder = files.root() / "overlays";
  json overlay{{"schema", "switchyard.table/1"},
               {"operator", "stamp"},
               {"deny", {{{"variant", "one"}, {"reason", "wrong for NaN"}}}}};
  files.write(folder / "deny.json", overlay.dump());
  CHECK(run_with_overlay(files, folder.string(), {.seqlen = 128}) == 2);
  overlay["deny"][0]["type"] = {{"dtype", "f16"}};
  files.write(folder / "deny.json", overlay.dump());
  CHECK(run_with_overlay(files, folder.string(), {.seqlen = 128}) == 1);

  overlay.erase("deny");
  overlay["pin"] = {
      {{"variant", "two"}, {"reason", "by hand"}, {"at", {{"seqlen", {100, 200}}, {"batch", 1}}}}};
  files.write(folder / "deny.json", "{");  // a bad file costs itself only
  files.write(folder / "stamp" / "pin.json", overlay.dump());
  CHECK(run_with_overlay(files, folder.string(), {.seqlen = 128}) == 2);
  CHECK(run_with_overlay(files, folder.string(), {.seqlen = 99}) == 1);
  CHECK(run_with_overlay(files, folder.string(), {.batch = 2, .seqlen = 128}) == 1);
  CHECK_THAT(files.log(), has_text("[switchyard.103]") && has_text("deny.json"));

  sy::catalog_options options = files.options();
  options.tables = {folder.string()};
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  const auto why = on.explain({.seqlen = 128});
  CHECK(why.chosen.why == sy::reason::pinned);
  CHECK_THAT(to_string(why), has_text("pinned by ") && has_text("pin.json: by hand"));
  CHECK(run_engine("SWITCHYARD_PATH=" + files.root().string() + " SWITCHYARD_TABLES=" + folder.string() +
                       " SWITCHYARD_DEBUG_FILE=/dev/null",
                   "128") == "stamp 2\n");
}

TEST_CASE("an overlay of another operator is none of this one's business") {
  const disk files = with_three_variants();
  const auto overlay = files.root() / "overlay.json";
  files.write(overlay, json{{"schema", "switchyard.table/1"},
                            {"operator", "axpy"},
                            {"deny", {{{"variant", "one"}, {"reason", "elsewhere"}}}}}
                           .dump());
  CHECK(run_with_overlay(files, overlay.string(), {.seqlen = 128}) == 1);
  CHECK(files.log() == "");
}

TEST_CASE("an overlay that is named but not there is warned of") {
  const disk files = with_three_variants();
  CHECK(run_with_overlay(files, (files.root() / "missing.json").string(), {.seqlen = 128}) == 1);
  CHECK_THAT(files.log(), has_text("missing.json") && has_text("[switchyard.101]"));
}
