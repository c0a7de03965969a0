// SPDX-License-Identifier: MIT
// Limits of a caller: variants that exceed one never serve, and the workspace that always suffices.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

/// "roomy" takes 1024 bytes a token and is the fastest, "modest" takes 256 for each of the batch, "bare" none
/// and is slow.
[[nodiscard]] std::vector<json> three() {
  std::vector<json> out{stamp_variant("roomy", 1), stamp_variant("modest", 2), stamp_variant("bare", 3)};
  out[0]["workspace"] = {{"scratch", "1024 * seqlen"}};
  out[1]["workspace"] = {{"scratch", "256 * batch"}};
  return out;
}

void put_limited_variants(const disk& files) {
  files.put_manifest("stamp", three());
  files.put_table("stamp", {stamp_group({row(1, 16, {{"roomy", 1.0}, {"modest", 2.0}, {"bare", 4.0}}),
                                         row(1, 4096, {{"roomy", 1.0}, {"modest", 2.0}, {"bare", 4.0}})})});
}

[[nodiscard]] sy::dispatcher<stamp> limited(sy::catalog& from, sy::choice_limits limits) {
  return {from, sy::device::host(), std::move(limits)};
}

[[nodiscard]] int run_within(sy::dispatcher<stamp>& with, stamp::arguments call, std::size_t bytes) {
  alignas(256) static thread_local std::byte memory[65'536];
  std::int32_t out = -1;
  call.out = &out;
  with(nullptr, call, {static_cast<void*>(memory), bytes});
  return out;
}

}  // namespace

TEST_CASE("a workspace limit is a constraint of the choice") {
  const disk files;
  put_limited_variants(files);
  disk_dispatcher<stamp> any{files, sy::device::host()};
  CHECK(run(any, {.seqlen = 16}) == 1);
  CHECK(any.workspace_bytes({.seqlen = 16}) == 16'384);

  sy::dispatcher<stamp> few = limited(any.catalog, {.workspace_bytes = 1000});
  CHECK(run(few, {.seqlen = 16}) == 2);   // by its row
  CHECK(run(few, {.seqlen = 300}) == 2);  // by prediction
  CHECK(few.workspace_bytes({.seqlen = 16}) == 256);
  CHECK(run(few, {.batch = 4, .seqlen = 16}) == 3);
  const sy::explanation why = few.explain({.seqlen = 16});
  CHECK(why.variant == "modest");
  CHECK(why.chosen.why == sy::reason::exact);
  REQUIRE(why.candidates.size() == 3);
  CHECK(why.candidates[0].obstacle == "needs 16384 bytes of workspace, more than the limit of 1000");
  CHECK(why.candidates[1].admissible);

  sy::dispatcher<stamp> none = limited(any.catalog, {.workspace_bytes = 0});
  CHECK(run(none, {.seqlen = 16}) == 3);
  few.prepare({.batch = 4}, {{"seqlen", 1, 64}});

  // The catalog's limits are those of dispatchers without their own.
  sy::catalog_options small = files.options();
  small.limits.workspace_bytes = 300;
  sy::catalog limiting{small};
  sy::dispatcher<stamp> by_catalog{limiting, sy::device::host()};
  CHECK(run(by_catalog, {.seqlen = 16}) == 2);
  sy::dispatcher<stamp> own = limited(limiting, {.workspace_bytes = 20'000});
  CHECK(run(own, {.seqlen = 16}) == 1);
  CHECK(limiting.make_selector(sy::describe<stamp>(), sy::host::read_properties())->limits.workspace_bytes ==
        300);
}

TEST_CASE("where every variant needs more than the limit, the error names the least that would do") {
  const disk files;
  std::vector<json> variants = three();
  variants.pop_back();
  variants.push_back(stamp_variant("faulty", 4));
  variants.back()["workspace"] = {{"scratch", "100 / (batch - 1)"}};
  files.put_manifest("stamp", variants);
  sy::catalog catalog{files.options()};
  sy::dispatcher<stamp> few = limited(catalog, {.workspace_bytes = 200});
  CHECK_THROWS_WITH(run(few, {.seqlen = 16}),
                    has_text("[switchyard.302] stamp") &&
                        has_text("roomy (needs 16384 bytes of workspace, more than the limit of 200)") &&
                        has_text("faulty (workspace 'scratch' \"100 / (batch - 1)\" divides by zero)") &&
                        has_text("; a workspace limit of at least 256 bytes would do"));
  // One that the limit is not to blame for.
  CHECK_THROWS_WITH(run(few, {.dtype = sy::dtype::f16}),
                    has_text("change the call, or install a variant that serves it"));
}

TEST_CASE("limits that nothing could keep to are refused") {
  const disk files;
  put_limited_variants(files);
  sy::catalog catalog{files.options()};
  CHECK_THROWS_WITH(limited(catalog, {.workspace_bytes = -1}),
                    "[switchyard.301] limits: workspace_bytes is -1, but must not be negative");
  CHECK_THROWS_WITH(limited(catalog, {.max_error = 0}),
                    "[switchyard.301] limits: max_error is 0, but must be more than 0");
  CHECK_THROWS_WITH(limited(catalog, {.max_error = std::numeric_limits<double>::quiet_NaN()}),
                    has_text("limits: max_error is nan"));
  sy::catalog_options options = files.options();
  options.limits.max_error = -1;
  CHECK_THROWS_WITH(sy::catalog{options}, has_text("limits: max_error is -1"));
  sy::catalog routed{files.options()};
  CHECK_THROWS_WITH((sy::dispatcher<stamp>{routed, sy::choice_limits{.max_error = 0}}),
                    has_text("limits: max_error is 0"));
}

TEST_CASE("a call is served by a variant for which its memory suffices") {
  const disk files;
  put_limited_variants(files);
  auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run_within(on, {.seqlen = 16}, 16'384) == 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(run_within(on, {.seqlen = 16}, 16'383) == 2);
    CHECK(run_within(on, {.seqlen = 16}, 256) == 2);
    CHECK(run_within(on, {.seqlen = 16}, 255) == 3);
    CHECK(run_within(on, {.seqlen = 16}, 65'536) == 1);
  }
  for (std::size_t bytes = 0; bytes < 16'384; bytes += 64)  // more than are kept
    CHECK(run_within(on, {.seqlen = 16}, bytes) == (bytes < 256 ? 3 : 2));
  CHECK(run(on, {.seqlen = 16}) == 1);  // the device gives it

  files.put_manifest("stamp", {three()[0], three()[1]});
  CHECK_FALSE(on.catalog.reload().changed.empty());
  CHECK_THROWS_WITH(run_within(on, {.seqlen = 16}, 100),
                    "[switchyard.301] stamp: the workspace has 100 bytes; 256, aligned to 256, are needed. "
                    "workspace_bytes() tells how many");

  sy::catalog_options forced = files.options();
  forced.settings.forced = {{"stamp", "roomy"}};
  sy::catalog forcing{forced};
  sy::dispatcher<stamp> only{forcing, sy::device::host()};
  CHECK_THROWS_WITH(run_within(only, {.seqlen = 16}, 256), has_text("256 bytes; 16384, aligned to 256"));
}

TEST_CASE("a call that its arguments keep from the smaller variant says what memory it needs") {
  const disk files;
  std::vector<json> variants = three();
  variants[1]["launches"][0]["grid"] = {"8 / blocks", 1, 1};
  variants.pop_back();
  files.put_manifest("stamp", variants);
  disk_dispatcher<stamp> on{files, sy::device::host()};
  for (int i = 0; i < 2; ++i) {
    CHECK(run_within(on, {.seqlen = 16, .blocks = 8}, 256) == 2);
    CHECK_THROWS_WITH(run_within(on, {.seqlen = 16, .blocks = 0}, 256),
                      has_text("the workspace has 256 bytes; 16384, aligned to 256, are needed"));
    CHECK(run_within(on, {.seqlen = 16, .blocks = 0}, 16'384) == 1);
  }
  variants.push_back(three()[2]);
  files.put_manifest("stamp", variants);
  CHECK_FALSE(on.catalog.reload().changed.empty());
  CHECK(run_within(on, {.seqlen = 16, .blocks = 0}, 256) == 3);
  CHECK(run_within(on, {.seqlen = 16, .blocks = 8}, 256) == 2);
}

TEST_CASE("inside a capture a smaller variant is not loaded for want of memory") {
  const disk files;
  std::vector<json> variants = three();
  files.put_blob("stamp", "stamp.so", "other.so");
  files.write(files.kernels("stamp") / "other.so", read_text(disk::built("stamp.so")) + "x");
  variants[1]["launches"][0]["blob"] = "other.so";
  variants.pop_back();
  files.put_manifest("stamp", variants);
  auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({.seqlen = 16});
  driver->is_capturing = true;
  CHECK_THROWS_WITH(run_within(on, {.seqlen = 16}, 256), has_text("[switchyard.212]"));
  driver->is_capturing = false;
  CHECK(run_within(on, {.seqlen = 16}, 256) == 2);
  driver->is_capturing = true;
  CHECK(run_within(on, {.seqlen = 16}, 256) == 2);

  driver->is_capturing = false;
  on.catalog.seal({.load = sy::seal_action::refuse});
  files.write(files.kernels("stamp") / "third.so", read_text(disk::built("stamp.so")) + "xx");
  variants[1]["launches"][0]["blob"] = "third.so";
  files.put_manifest("stamp", variants);
  on.catalog.reload();
  CHECK(run(on, {.seqlen = 16}) == 1);
  CHECK_THROWS_WITH(run_within(on, {.seqlen = 16}, 256), has_text("[switchyard.306]"));
}

TEST_CASE("threads that give different memory get the variants that it suffices for") {
  const disk files;
  put_limited_variants(files);
  disk_dispatcher<stamp> on{files, sy::device::host()};
  std::vector<int> wrong(4);
  auto threads = sy::test::start_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      const auto bytes = static_cast<std::size_t>((i * 131 + t * 64) % 20'000);
      const int expected = bytes >= 16'384 ? 1 : bytes >= 256 ? 2 : 3;
      wrong[static_cast<std::size_t>(t)] += run_within(on, {.seqlen = 16}, bytes) != expected ? 1 : 0;
    }
  });
  for (int i = 0; i < 20; ++i) {  // plans come and go meanwhile
    put_limited_variants(files);
    (void)on.catalog.reload();
  }
  sy::test::join_all(threads);
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("the workspace of ranges suffices whichever table arrives") {
  const disk files;
  std::vector<json> variants = three();
  variants.push_back(stamp_variant("narrow", 4));  // a great deal, of few calls
  variants.back()["workspace"] = {{"scratch", "100000 * batch * seqlen"}};
  variants.back()["requires"] = {"batch <= 2", "seqlen % 8 == 0"};
  variants.push_back(stamp_variant("half", 5, {{"dtype", "f16"}}));
  variants.back()["workspace"] = {{"scratch", 7'000'000}};
  files.put_manifest("stamp", variants);
  files.put_table("stamp", {stamp_group({row(1, 16, {{"bare", 1.0}, {"modest", 2.0}})})});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {.seqlen = 16}) == 3);
  CHECK(on.workspace_bytes({.seqlen = 16}) == 0);              // of the present choice
  CHECK(on.workspace_bytes({.seqlen = 16}, {}) == 1'600'000);  // of any
  CHECK(on.workspace_bytes({.seqlen = 17}, {}) == 17'408);     // "narrow" does not serve it
  CHECK(on.workspace_bytes({.batch = 3}, {{"seqlen", 1, 100}}) == 102'400);
  CHECK(on.workspace_bytes({.batch = 3}, {{"batch", 1, 4096}}) == 1'048'576);
  CHECK(on.workspace_bytes({}, {{"batch", 1, 1'000'000}, {"seqlen", 1, 31}}) == 256'000'000);
  CHECK(on.workspace_bytes({}, {{"batch", 1, 8}, {"seqlen", 1, 31}}) == 4'800'000);  // 2 x 24 tokens
  CHECK(on.workspace_bytes({}, {{"dtype", 0, 8}}) == 7'000'064);
  CHECK(on.workspace_bytes({.dtype = sy::dtype::bf16}, {{"seqlen", 1, 8}}) == 0);  // nothing serves it
  CHECK_THROWS_WITH(on.workspace_bytes({}, {{"tokens", 1, 8}}), has_text("the operator has no such axis"));
  CHECK_THROWS_WITH(on.workspace_bytes({}, {{"head_dim", 1, 8'000}}),
                    has_text("the ranges cover more than 1024 types of calls"));

  const std::size_t enough = on.workspace_bytes({}, {{"batch", 1, 2}, {"seqlen", 1, 16}});
  for (const char* const best : {"roomy", "modest", "bare", "narrow"}) {
    files.put_table("stamp", {stamp_group({row(1, 16, {{best, 1.0}})})});
    on.catalog.reload();
    for (std::int64_t batch = 1; batch <= 2; ++batch) {
      for (std::int64_t seqlen = 1; seqlen <= 16; ++seqlen)
        CHECK(on.workspace_bytes({.batch = batch, .seqlen = seqlen}) <= enough);
    }
  }

  // A limit bounds it, and variants that other limits exclude do not count.
  sy::dispatcher<stamp> few = limited(on.catalog, {.workspace_bytes = 5'000});
  CHECK(few.workspace_bytes({}, {{"seqlen", 1, 31}}) == 5'000);
  sy::dispatcher<stamp> exact = limited(on.catalog, {.max_error = 0.5});
  CHECK(exact.workspace_bytes({}, {{"seqlen", 1, 31}}) == 0);
}

TEST_CASE("conditions on arguments count as the call's, and both ways where a range decides them") {
  const disk files;
  std::vector<json> variants = three();
  variants[0]["requires"] = {"blocks == 2"};
  variants[1]["requires"] = {"blocks == seqlen"};
  files.put_manifest("stamp", variants);
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(on.workspace_bytes({.seqlen = 8, .blocks = 2}, {}) == 8'192);
  CHECK(on.workspace_bytes({.seqlen = 8, .blocks = 3}, {}) == 0);
  CHECK(on.workspace_bytes({.batch = 2, .seqlen = 3, .blocks = 3}, {}) == 512);
  CHECK(on.workspace_bytes({.batch = 2, .seqlen = 8, .blocks = 3}, {{"seqlen", 1, 8}}) == 512);
}

TEST_CASE("limits of numerics admit variants that state them") {
  const disk files;
  std::vector<json> variants{stamp_variant("fast", 1), stamp_variant("exact", 2), stamp_variant("alike", 3),
                             stamp_variant("alike_large", 4)};
  variants[1]["max_error"] = 0.25;
  variants[2]["reproducible"] = "rows";
  variants[3]["reproducible"] = "rows";
  variants[3]["max_error"] = 0.5;
  files.put_manifest("stamp", variants);
  files.put_table(
      "stamp",
      {stamp_group({row(1, 16, {{"fast", 1.0}, {"exact", 2.0}, {"alike", 4.0}, {"alike_large", 3.0}}),
                    row(1, 4096, {{"fast", 1.0}, {"exact", 4.0}, {"alike", 2.0}})})});
  sy::catalog catalog{files.options()};
  const auto chosen = [&](sy::choice_limits limits, std::int64_t seqlen) {
    sy::dispatcher<stamp> on = limited(catalog, std::move(limits));
    return run(on, {.seqlen = seqlen});
  };
  CHECK(chosen({}, 16) == 1);
  CHECK(chosen({.max_error = 1}, 16) == 1);
  CHECK(chosen({.max_error = 0.9}, 16) == 2);
  CHECK(chosen({.max_error = 0.25}, 16) == 2);
  CHECK(chosen({.reproducible = "rows"}, 16) == 4);
  CHECK(chosen({.reproducible = "rows"}, 4096) == 3);
  CHECK(chosen({.max_error = 0.9, .reproducible = "rows"}, 4096) == 4);

  sy::dispatcher<stamp> on = limited(catalog, {.max_error = 0.9, .reproducible = "rows"});
  const sy::explanation why = on.explain({.seqlen = 16});
  CHECK(why.candidates[0].obstacle == "may be off by 1 of the tolerance, more than the limit of 0.9");
  CHECK(why.candidates[1].obstacle == "is not in the reproducible class 'rows'");
  CHECK_THROWS_WITH(chosen({.max_error = 0.1}, 16),
                    has_text("[switchyard.302]") &&
                        has_text("exact (may be off by 0.25 of the tolerance, more than the limit of 0.1)") &&
                        has_text("change the call, its limits, or install a variant that serves it"));
  CHECK_THROWS_WITH(
      chosen({.reproducible = "columns"}, 16),
      has_text("alike (is not in the reproducible class 'columns' but in 'rows')") &&
          has_text(" reproducible classes that serve it: 'rows'; change the call, its limits,"));
}

TEST_CASE("errors name the obstacles of the demanded class, and the classes that would serve") {
  const disk files;
  std::vector<json> variants{stamp_variant("fast", 1), stamp_variant("alike", 2), stamp_variant("tiled", 3),
                             stamp_variant("tiled_small", 4), stamp_variant("large", 5)};
  variants[1]["reproducible"] = "rows";
  variants[1]["requires"] = {"seqlen <= 16"};
  variants[2]["reproducible"] = variants[3]["reproducible"] = "tiles";
  variants[4]["reproducible"] = "large";
  variants[4]["requires"] = {"seqlen > 4096"};
  files.put_manifest("stamp", variants);
  sy::catalog catalog{files.options()};
  const auto refused = [&](sy::choice_limits limits, std::int64_t seqlen) {
    sy::dispatcher<stamp> on = limited(catalog, std::move(limits));
    try {
      static_cast<void>(run(on, {.seqlen = seqlen}));
    } catch (const sy::call_error& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const std::string long_one = refused({.reproducible = "rows"}, 17);
  CHECK_THAT(long_one,
             has_text("Nearest: alike (requires seqlen <= 16);") &&
                 has_text(" reproducible classes that serve it: 'tiles'; change the call, its limits,"));
  CHECK(long_one.find("fast") == std::string::npos);
  CHECK_THAT(refused({.reproducible = "row"}, 8),
             has_text("reproducible classes that serve it: 'rows', 'tiles';"));
  CHECK_THAT(refused({.reproducible = "row"}, 5000), has_text("classes that serve it: 'tiles', 'large';"));
  CHECK_THAT(refused({.max_error = 0.5, .reproducible = "tiles"}, 8),
             has_text("tiled (may be off by 1 of the tolerance, more than the limit of 0.5);") &&
                 has_text(" no reproducible class serves it; change the call, its limits,"));
}

TEST_CASE("a new manifest under a limit: what needs more is not chosen") {
  const disk files;
  put_limited_variants(files);
  sy::catalog catalog{files.options()};
  sy::dispatcher<stamp> few = limited(catalog, {.workspace_bytes = 256});
  CHECK(run(few, {.seqlen = 16}) == 2);
  std::vector<json> larger = three();
  larger[1]["workspace"] = {{"scratch", "512 * batch"}};
  files.put_manifest("stamp", larger);
  CHECK_FALSE(catalog.reload().changed.empty());
  CHECK(run(few, {.seqlen = 16}) == 3);

  // New files under which no call could go on are not taken.
  larger.pop_back();
  files.put_manifest("stamp", larger);
  CHECK_FALSE(catalog.reload().refused.empty());
  CHECK(run(few, {.seqlen = 16}) == 3);
}
