// SPDX-License-Identifier: MIT
// Variants whose grid, memory or parameters cannot be computed for a call, or are more than the device takes:
// each gives way to the next, at start as after a replacement, and serves the calls that it fits.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

struct unfit_case {
  const char* name;
  const char* member;  ///< of the launch, or "workspace"
  json value;
  const char* message;
};

const std::vector<unfit_case>& unfit_cases() {
  static const std::vector<unfit_case> all{
      {"grid divides by zero", "grid", {"seqlen / 0", 1, 1}, "grid"},
      {"grid is negative", "grid", {"0 - seqlen", 1, 1}, "grid would be -"},
      {"grid overflows", "grid", {"9223372036854775807 * (seqlen + 1)", 1, 1}, "grid"},
      {"grid has 2^32 blocks", "grid", {"4294967296 * seqlen", 1, 1}, "grid would be 4294967296"},
      {"grid has more blocks than can be counted",
       "grid",
       {4294967295, 4294967295, 4294967295},
       "the grid would be"},
      {"block is negative", "block", {"0 - seqlen", 1, 1}, "block would be -"},
      {"shared memory is negative", "shared_bytes", "0 - seqlen", "shared_bytes would be -"},
      {"shared memory divides by zero", "shared_bytes", "seqlen % 0", "shared_bytes"},
      {"shared memory is impossible", "shared_bytes", "seqlen * 4294967295", "scratch memory"},
      {"shared memory is impossible for every call", "shared_bytes", 4294967295, "scratch memory"},
      {"workspace is negative", "workspace", "0 - seqlen", "workspace"},
      {"workspace divides by zero", "workspace", "1 / (seqlen - seqlen)", "workspace 'buffer'"},
      {"workspace is more than the memory", "workspace", "seqlen * 70368744177664", "bytes"},
      {"workspace is impossible", "workspace", "seqlen * 4611686018427387904", "workspace"},
  };
  return all;
}

json unfit_variant(const unfit_case& of) {
  json out = stamp_variant("unfit", 1);
  if (std::string{of.member} == "workspace") {
    out["workspace"] = {{"buffer", of.value}};
  } else {
    out["launches"][0][of.member] = of.value;
  }
  return out;
}

/// Calls of five blocks have no grid.
json partial_variant() {
  json out = stamp_variant("partial", 1);
  out["launches"][0]["grid"] = {"min(1, 1 + 0 / (blocks - 5))", 1, 1};
  return out;
}

}  // namespace

TEST_CASE("a variant that cannot be computed for a call gives way to the next, with one warning") {
  for (const unfit_case& of : unfit_cases()) {
    for (const bool is_replaced : {false, true}) {
      DYNAMIC_SECTION(of.name << (is_replaced ? ", after a replacement" : ", at start")) {
        const disk files;
        const auto put = [&] { files.put_manifest("stamp", {unfit_variant(of), stamp_variant("sound", 2)}); };
        if (is_replaced) {
          files.put_manifest("stamp", {stamp_variant("sound", 2)});
        } else {
          put();
        }
        disk_dispatcher<stamp> on{files, fresh_host()};
        if (is_replaced) {
          CHECK(run(on, {.seqlen = 1}) == 2);
          put();
          (void)on.catalog.reload();
        }
        for (int i = 1; i < 4; ++i) CHECK(run(on, {.seqlen = i}) == 2);
        const std::string log = files.log();
        INFO(log);
        CHECK(count_of(log, "warning") == 1);
        CHECK_THAT(log, has_text("variant 'unfit'") && has_text(of.message) &&
                            has_text("the next candidate is used"));
      }
    }
  }
}

TEST_CASE("a variant that does not fit one call serves those that it fits") {
  const disk files;
  json partial = stamp_variant("partial", 1);
  partial["launches"][0]["grid"] = {"min(1, 4096 / (seqlen - 7) * 0 + 1)", 1, 1};  // not for 7
  files.put_manifest("stamp", {partial, stamp_variant("sound", 2)});
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {.seqlen = 6}) == 1);
  CHECK(run(on, {.seqlen = 7}) == 2);
  CHECK(run(on, {.seqlen = 8}) == 1);
  CHECK(run(on, {.seqlen = 7}) == 2);
  CHECK(count_of(files.log(), "warning") == 1);
}

TEST_CASE("an argument of a single call can rule a variant out for this call") {
  const disk files{"stamp", {partial_variant(), stamp_variant("sound", 2)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  for (int round = 0; round < 3; ++round) {
    CHECK(run(on, {.blocks = 4}) == 1);
    CHECK(run(on, {.blocks = 5}) == 2);
    CHECK(run(on, {.blocks = 6}) == 1);
  }
  CHECK(count_of(files.log(), "warning") == 1);
}

TEST_CASE("explain() names the variant that runs, and why those before it are passed over") {
  for (const unfit_case& of : unfit_cases()) {
    DYNAMIC_SECTION(of.name) {
      const disk files{"stamp", {unfit_variant(of), stamp_variant("sound", 2)}};
      disk_dispatcher<stamp> on{files, fresh_host()};
      const sy::explanation why = on.explain({.seqlen = 1});
      REQUIRE(why.candidates.size() == 2);
      INFO(why.candidates[0].obstacle);
      CHECK(why.variant == "sound");
      CHECK(why.candidates[0].passed_over);
      CHECK_FALSE(why.candidates[0].admissible);
      CHECK_THAT(why.candidates[0].obstacle, has_text(of.message));
      CHECK(why.candidates[1].admissible);
      CHECK(run(on, {.seqlen = 1}) == 2);
      CHECK_THAT(files.log(), has_text(why.candidates[0].obstacle));
    }
  }
}

TEST_CASE("explain() looks at an argument that a grid reads") {
  const disk files{"stamp", {partial_variant(), stamp_variant("sound", 2)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(on.explain({.blocks = 4}).variant == "partial");
  const sy::explanation why = on.explain({.blocks = 5});
  CHECK(why.variant == "sound");
  CHECK(why.candidates[0].obstacle == "grid \"min(1, 1 + 0 / (blocks - 5))\" divides by zero");
}

TEST_CASE("prepare() over ranges loads the variant that calls will run, not the one that they pass over") {
  const disk files;
  json partial = stamp_variant_in("partial.so", "partial", 1);
  files.put_blob("stamp", "stamp.so", "partial.so");
  partial["launches"][0]["grid"] = {"min(1, 4096 / (seqlen - 7) * 0 + 1)", 1, 1};  // not for 7
  files.put_manifest("stamp", {partial, stamp_variant("sound", 2)});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({}, {{"seqlen", 1, 32}});
  driver->is_capturing = true;  // nothing can be loaded any more
  CHECK(run(on, {.seqlen = 6}) == 1);
  CHECK(run(on, {.seqlen = 7}) == 2);

  // Where nothing fits, the call says it, not prepare().
  files.put_manifest("stamp", {partial});
  sy::catalog other{files.options()};
  sy::dispatcher<stamp> alone{other, fresh_host()};
  alone.prepare({}, {{"seqlen", 1, 32}});
  CHECK(run(alone, {.seqlen = 6}) == 1);
  CHECK_THROWS_WITH(run(alone, {.seqlen = 7}), has_text("[switchyard.305]") && has_text("divides by zero"));
}

TEST_CASE("where no variant fits a call, the error is that of the first") {
  for (const unfit_case& of : unfit_cases()) {
    DYNAMIC_SECTION(of.name) {
      const disk files{"stamp", {unfit_variant(of)}};
      disk_dispatcher<stamp> on{files, fresh_host()};
      for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(run(on, {.seqlen = 1}), has_text("unfit"));
    }
  }
}

TEST_CASE("a manifest of which nothing is usable does not take the place of one that serves") {
  const auto spoil =
      GENERATE(as<std::string>{}, "no variants", "invalid entries", "misspelt target", "never holds");
  const disk files{"stamp", {stamp_variant("sound", 2)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {.seqlen = 1}) == 2);

  json variant = stamp_variant("useless", 1);
  if (spoil == "invalid entries") variant["launches"][0]["grid"] = "nonsense";
  if (spoil == "never holds") variant["requires"] = {"seqlen < 0"};
  files.put_manifest("stamp", spoil == "no variants" ? json::array() : json::array({variant}));
  if (spoil == "misspelt target") {
    json whole = json::parse(read_text(files.manifest_path("stamp")));
    whole["target"]["backend"] = "hots";
    files.write(files.manifest_path("stamp"), whole.dump());
  }
  for (int i = 0; i < 2; ++i) {
    const sy::reload_report report = on.catalog.reload();
    INFO(files.log());
    if (i == 0) CHECK(report.refused.size() == 1);
    CHECK(run(on, {.seqlen = 1}) == 2);
    CHECK(run(on, {.seqlen = 2 + i}) == 2);
    CHECK(count_of(files.log(), "warning") == 1);
  }

  files.put_manifest("stamp", {stamp_variant("newer", 3)});
  (void)on.catalog.reload();
  if (spoil == "never holds") {  // the on.catalog waits before it tries refused files again
    for (int i = 0; i < 30 && run(on, {.seqlen = 1}) != 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      (void)on.catalog.reload();
    }
  }
  CHECK(run(on, {.seqlen = 1}) == 3);
  CHECK(run(on, {.seqlen = 9}) == 3);
}
