// SPDX-License-Identifier: MIT
// A sealed catalog: what calls met that nobody prepared, and calls that are refused.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

/// The rows of head dim 64; nothing decides the others.
[[nodiscard]] json group(const std::vector<json>& rows) {
  return stamp_group(rows, {{"dtype", "f32"}, {"head_dim", 64}});
}

/// "short" for few tokens, "long" for many, in two blobs.
void put_short_and_long(const disk& files) {
  std::vector<json> variants;
  for (int i = 1; i <= 2; ++i) {
    const std::string blob = "stamp" + std::to_string(i) + ".so";
    files.write(files.kernels("stamp") / blob,
                read_text(disk::built("stamp.so")) + std::string(8, 'x') + blob);
    json variant = stamp_variant(i == 1 ? "short" : "long", i);
    variant["launches"][0]["blob"] = blob;
    variants.push_back(variant);
  }
  files.put_manifest("stamp", variants);
  files.put_table(
      "stamp",
      {group({row(1, 16, {{"short", 1.0}, {"long", 2.0}}), row(1, 4096, {{"short", 2.0}, {"long", 1.0}})})});
}

struct sealed_engine {
  disk files;
  std::shared_ptr<faulty_driver> driver = std::make_shared<faulty_driver>();
  std::unique_ptr<sy::catalog> catalog;
  std::unique_ptr<sy::dispatcher<stamp>> on;

  sealed_engine() {
    put_short_and_long(files);
    catalog = std::make_unique<sy::catalog>(files.options());
    on = std::make_unique<sy::dispatcher<stamp>>(*catalog, sy::device{driver});
    on->prepare({.seqlen = 16});
  }
  [[nodiscard]] std::size_t warnings() const { return count_of(files.log(), "[switchyard.306]"); }
};

}  // namespace

TEST_CASE("a sealed catalog counts what calls met that nobody prepared") {
  sealed_engine engine;
  CHECK(run(*engine.on, {.seqlen = 17}) == 1);
  CHECK(engine.catalog->sealed().plans == 0);  // not yet sealed

  engine.catalog->seal();
  CHECK(run(*engine.on, {.seqlen = 16}) == 1);  // prepared
  CHECK(run(*engine.on, {.seqlen = 17}) == 1);  // met before
  CHECK(engine.catalog->sealed().plans == 0);
  CHECK(run(*engine.on, {.seqlen = 18}) == 1);  // planned: only counted
  CHECK(run(*engine.on, {.seqlen = 18}) == 1);
  sy::seal_report found = engine.catalog->sealed();
  CHECK(found.plans == 1);
  CHECK(found.loads == 0);
  REQUIRE(found.problems.size() == 1);
  CHECK(found.problems[0].calls == 1);
  CHECK_FALSE(found.problems[0].was_loaded);
  CHECK(engine.warnings() == 0);

  CHECK(run(*engine.on, {.seqlen = 4096}) == 2);  // loaded
  found = engine.catalog->sealed();
  CHECK(found.plans == 2);
  CHECK(found.loads == 1);
  CHECK(found.fallbacks == 0);
  REQUIRE(found.problems.size() == 2);
  CHECK(found.problems[1].was_loaded);
  const json line = json::parse(found.problems[1].line);
  CHECK(line["operator"] == "stamp");
  CHECK(line["problem"]["seqlen"] == 4096);
  CHECK(engine.warnings() == 1);
  CHECK_THAT(engine.files.log(), has_text("seqlen=4096} on ") &&
                                     has_text("not prepared before the catalog was sealed: its kernel was "
                                              "loaded during the call\n"));

  CHECK(run(*engine.on, {.head_dim = 80, .seqlen = 16}) > 0);  // no rows decide
  found = engine.catalog->sealed();
  CHECK(found.fallbacks == 1);
  CHECK(found.problems[2].is_fallback);
  CHECK_THAT(engine.files.log(), has_text(", and no rows decide it\n"));

  const std::vector<std::string> lines = lines_of(to_string(found));
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], has_text("1 call of stamp {dtype=f32 head_dim=64 batch=1 seqlen=18} on ") &&
                           has_text(": planned"));
  CHECK_THAT(lines[1], has_text(": loaded its kernel"));
  CHECK_THAT(lines[2], has_text("no rows decide it"));

  // What is asked for is no event: prepare(), workspace_bytes(), and what a reload plans.
  engine.on->prepare({.seqlen = 20});
  CHECK(engine.on->workspace_bytes({.seqlen = 21}) == 0);
  put_short_and_long(engine.files);
  engine.files.put_table("stamp", {group({row(1, 16, {{"short", 2.0}, {"long", 1.0}})})});
  CHECK_FALSE(engine.catalog->reload().changed.empty());
  CHECK(run(*engine.on, {.seqlen = 16}) == 2);
  CHECK(engine.catalog->sealed().plans == 3);

  engine.catalog->seal();  // counts anew
  CHECK(engine.catalog->sealed().problems.empty());
  engine.catalog->unseal();
  (void)run(*engine.on, {.seqlen = 23});
  CHECK(engine.catalog->sealed().plans == 0);
}

TEST_CASE("a sealed catalog refuses by its rules, and prepare() cures it") {
  sealed_engine engine;
  engine.catalog->seal(
      {.load = sy::seal_action::refuse, .plan = sy::seal_action::count, .fallback = sy::seal_action::refuse});
  const int loads = engine.driver->loads;
  CHECK(run(*engine.on, {.seqlen = 18}) == 1);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH(
        run(*engine.on, {.seqlen = 4096}),
        "[switchyard.306] stamp: variant 'long' is not loaded, and the sealed catalog refuses to "
        "load. Call prepare() with this problem before seal()");
  }
  CHECK(engine.driver->loads == loads);
  CHECK_THROWS_WITH(run(*engine.on, {.head_dim = 80, .seqlen = 16}),
                    has_text("[switchyard.306] stamp: the problem is decided by no rows, and the sealed "
                             "catalog refuses such calls") &&
                        has_text("head_dim=80"));
  sy::seal_report found = engine.catalog->sealed();
  CHECK(found.plans == 4);
  CHECK(found.refused == 3);
  REQUIRE(found.problems.size() == 3);
  CHECK(found.problems[1].calls == 2);
  CHECK(found.problems[1].is_refused);
  CHECK_THAT(to_string(found), has_text("2 calls of stamp {") && has_text(": planned, refused\n"));
  CHECK(engine.warnings() == 0);  // the caller knows

  engine.on->prepare({.seqlen = 4096});
  CHECK(run(*engine.on, {.seqlen = 4096}) == 2);  // the refused variant is not out of service

  engine.catalog->seal({.plan = sy::seal_action::refuse});
  CHECK_THROWS_WITH(run(*engine.on, {.seqlen = 19}), has_text("stamp: the problem is new, and the sealed"));
  CHECK(run(*engine.on, {.seqlen = 18}) == 1);
}

TEST_CASE("a sealed catalog remembers a bounded number of problems, of any threads") {
  sealed_engine engine;
  engine.catalog->seal({.plan = sy::seal_action::report});
  sy::test::run_threads(4, [&engine](int t) {
    for (int i = 0; i < 400; ++i) (void)run(*engine.on, {.batch = 2 + t, .seqlen = 1 + i});
  });
  const sy::seal_report found = engine.catalog->sealed();
  CHECK(found.plans == 1'600);
  CHECK(found.problems.size() == 1'024);
  CHECK(engine.warnings() == 1'024);
}
