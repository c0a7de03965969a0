// SPDX-License-Identifier: MIT
// Files that the program itself refuses, as one that checks signatures does.
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

void rank(const disk& files, const char* fast, const char* slow) {
  files.put_table("stamp", {stamp_group({row(1, 1, {{fast, 1.0}, {slow, 2.0}})})});
}

/// Two variants and a table, and a program that refuses what has a word in it.
struct refusing_engine {
  disk files;
  std::string refused;  // what no file may contain; empty: each may
  std::vector<std::string> asked;

  refusing_engine() {
    files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
    rank(files, "two", "one");
  }
  [[nodiscard]] sy::catalog_options options() {
    sy::catalog_options out = files.options();
    out.accept = [this](std::string_view bytes, const std::string& path) -> std::string {
      asked.push_back(path);
      if (refused.empty() || bytes.find(refused) == std::string_view::npos) return {};
      if (refused == "two") throw std::runtime_error{"no key"};
      return "it is not signed";
    };
    return out;
  }
};

}  // namespace

TEST_CASE("each manifest and table is shown to the program before it is used, once for each version") {
  refusing_engine engine;
  disk_dispatcher<stamp> on{engine, fresh_host()};
  CHECK(run(on, {}) == 2);
  CHECK(engine.asked == std::vector<std::string>{engine.files.manifest_path("stamp").string(),
                                                 engine.files.table_path("stamp").string()});
  (void)on.catalog.reload();
  CHECK(engine.asked.size() == 2);
  rank(engine.files, "one", "two");
  (void)on.catalog.reload();
  CHECK(engine.asked.size() == 3);
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a table that the program refuses leaves the old one in use, with its words") {
  refusing_engine engine;
  disk_dispatcher<stamp> on{engine, fresh_host()};
  CHECK(run(on, {}) == 2);
  engine.refused = "stamp";
  rank(engine.files, "one", "two");
  const sy::reload_report report = on.catalog.reload();
  CHECK(report.changed.empty());
  REQUIRE(report.refused.size() == 1);
  CHECK_THAT(report.refused[0], has_text("[switchyard.113] " + engine.files.table_path("stamp").string() +
                                         ": the program refuses it: it is not signed"));
  CHECK_THAT(engine.files.log(), has_text("it is not signed (keeping the previously loaded version)"));
  CHECK(run(on, {}) == 2);
  engine.refused.clear();
  rank(engine.files, "one", "two");  // published anew
  CHECK(on.catalog.reload().refused.empty());
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a table that the program refuses from the start is not used, nor is one whose check throws") {
  refusing_engine engine;
  engine.refused = "times_us";
  {
    disk_dispatcher<stamp> on{engine, fresh_host()};
    CHECK(run(on, {}) == 1);  // the manifest's order
    CHECK_THAT(engine.files.log(), has_text("it is not signed (the file is not used)"));
  }
  engine.refused = "two";  // the manifest has it as well
  disk_dispatcher<stamp> on{engine, fresh_host()};
  CHECK_THROWS_AS(run(on, {}), sy::call_error);
  CHECK_THAT(engine.files.log(),
             has_text("here.json: the program refuses it: no key (the file is not used)") &&
                 has_text("manifest.json: the program refuses it: no key"));
}

TEST_CASE("overlays are shown to the program as well") {
  refusing_engine engine;
  const std::string overlay = (engine.files.root() / "overlay.json").string();
  engine.files.write(
      overlay, disk::make_table("stamp", {stamp_group({row(1, 1, {{"one", 1.0}, {"two", 2.0}})})}).dump());
  sy::catalog_options options = engine.options();
  options.tables = {overlay};
  engine.refused = "\"one\":1.0,\"two\":2.0";
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 2);
  CHECK_THAT(engine.files.log(), has_text("overlay.json: the program refuses it"));
}
