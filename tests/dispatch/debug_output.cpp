// SPDX-License-Identifier: MIT
// What SWITCHYARD_DEBUG prints, and what explain() returns.
#include <chrono>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <switchyard/devices/hip/open.hpp>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
using Catch::Matchers::StartsWith;

/// Two variants, and a table in which one is faster at short and the other at long sequences.
disk with_two_variants() {
  return {"stamp",
          {stamp_variant("one", 1), stamp_variant("two", 2)},
          {stamp_group(
              {row(1, 128, {{"one", 5.0}, {"two", 9.0}}), row(1, 1024, {{"one", 90.0}, {"two", 41.5}})})}};
}

sy::catalog_options with_debug(const disk& files, sy::debug_level level, bool as_json = false) {
  sy::catalog_options options = files.options();
  options.settings.debug = level;
  options.settings.debug_json = as_json;
  return options;
}

}  // namespace

TEST_CASE("explain gives the choice as data and as a sentence, and loads nothing") {
  const disk files = with_two_variants();
  disk_dispatcher<stamp> on{files, sy::device::host()};
  const auto exact = on.explain({.batch = 1, .seqlen = 1024});
  CHECK(exact.variant == "two");
  CHECK(exact.chosen.why == sy::reason::exact);
  CHECK(exact.chosen.distance == 0);
  CHECK(exact.chosen.microseconds == Approx(41.5));
  CHECK(exact.table == files.table_path("stamp").string());
  CHECK(exact.table_group == 0);
  CHECK(exact.table_row == 1);
  CHECK(exact.row_at == "batch=1 seqlen=1024");
  CHECK(exact.config == "number=2,tile=16");
  CHECK(exact.manifest == files.manifest_path("stamp").string());
  REQUIRE(exact.candidates.size() == 2);
  CHECK(exact.candidates[0].variant == "one");
  CHECK(exact.candidates[0].microseconds == Approx(90));
  CHECK_THAT(to_string(exact), has_text("stamp {dtype=f32 head_dim=64 batch=1 seqlen=1024}") &&
                                   has_text("two") && has_text("exact: row 1 of group 0") &&
                                   has_text("measured 41.5 us"));

  const auto near = on.explain({.batch = 1, .seqlen = 150});
  CHECK(near.variant == "one");
  CHECK(near.chosen.why == sy::reason::interpolated);
  CHECK(near.chosen.distance == Approx(std::log2(150.0 / 128)).epsilon(1e-4));
  const auto far = on.explain({.batch = 1, .seqlen = 1 << 20});
  CHECK(far.variant == "two");
  CHECK(far.chosen.why == sy::reason::extrapolated);
  CHECK_THAT(to_string(far), has_text("outside the table's envelope") && has_text("at distance 10"));

  const auto none = on.explain({.dtype = sy::dtype::bf16});
  CHECK(none.variant.empty());
  CHECK(none.chosen.why == sy::reason::none);
  CHECK_THAT(to_string(none), has_text("no variant serves it"));
  CHECK_THAT(none.candidates.at(0).obstacle, has_text("serves dtype=f32, not bf16"));
}

TEST_CASE("level 1 prints a line for each new choice, and a summary at the end") {
  const disk files = with_two_variants();
  {
    sy::catalog catalog{with_debug(files, sy::debug_level::choices)};
    sy::dispatcher<stamp> on{catalog, sy::device::host()};
    for (int i = 0; i < 3; ++i) CHECK(run(on, {.seqlen = 1024}) == 2);
    CHECK(run(on, {.seqlen = 100}) == 1);
    CHECK(run(on, {.seqlen = 1 << 20}) == 2);
    CHECK_THROWS_AS(run(on, {.dtype = sy::dtype::f16}), sy::call_error);
    CHECK(lines_of(files.log()).size() == 3);
  }
  const auto lines = lines_of(files.log());
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[0], StartsWith("switchyard: stamp {") && has_text("seqlen=1024") &&
                           has_text(": two {number=2") && has_text("[host ") && has_text("exact: row 1") &&
                           has_text("stamp of ") && has_text("stamp.so, grid 1x1x1, block 1x1x1") &&
                           has_text("measured 41.5 us") && has_text("selected in ") &&
                           has_text(" ns, loaded in ") && has_text(files.table_path("stamp").string()));
  CHECK_THAT(lines[1], has_text("interpolated: nearest row 0") && has_text("predicted "));
  CHECK_THAT(lines[2], has_text("extrapolated"));
  CHECK_THAT(lines[3], StartsWith("switchyard: summary:") && has_text("exact 1") &&
                           has_text("interpolated 1") && has_text("extrapolated 1") &&
                           has_text("heuristic 0") && has_text("failed 1"));
}

TEST_CASE("the summary counts calls that no variant of their kind serves") {
  const disk files;
  json variant = stamp_variant("short", 1);
  variant["requires"] = {"seqlen < 100"};
  files.put_manifest("stamp", {variant});
  {
    sy::catalog catalog{with_debug(files, sy::debug_level::choices)};
    sy::dispatcher<stamp> on{catalog, sy::device::host()};
    CHECK(run(on, {.seqlen = 99}) == 1);
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(run(on, {.seqlen = 100}), sy::call_error);
  }
  CHECK_THAT(files.log(), has_text("heuristic 1") && has_text("failed 2"));
}

TEST_CASE("level 2 prints a line for each launch, the first after the line of its choice") {
  const disk files = with_two_variants();
  sy::catalog catalog{with_debug(files, sy::debug_level::launches)};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  for (int i = 0; i < 3; ++i) CHECK(run(on, {.seqlen = 1024}) == 2);
  const std::string text = files.log();
  CHECK(count_of(text, "selected in") == 1);
  CHECK(count_of(text, "switchyard: launch stamp {") == 3);
  CHECK(text.find("selected in") < text.find("switchyard: launch stamp {"));
}

TEST_CASE("json prints the same as JSON lines") {
  const disk files = with_two_variants();
  {
    sy::catalog catalog{with_debug(files, sy::debug_level::launches, true)};
    sy::dispatcher<stamp> on{catalog, sy::device::host()};
    for (int i = 0; i < 3; ++i) CHECK(run(on, {.seqlen = 1024}) == 2);
  }
  const auto lines = lines_of(files.log());
  REQUIRE(lines.size() == 5);
  const json choice = json::parse(lines[0]);
  CHECK(choice["event"] == "choice");
  CHECK(choice["operator"] == "stamp");
  CHECK(choice["variant"] == "two");
  CHECK(choice["reason"] == "exact");
  CHECK(choice["table"] == files.table_path("stamp").string());
  CHECK(choice["row"] == 1);
  CHECK(choice["predicted_us"] == 41.5);
  CHECK(choice["launches"].size() == 1);
  CHECK(choice["select_ns"].get<int>() >= 0);
  CHECK(choice["load_us"].get<double>() > 0);
  CHECK(json::parse(lines[1])["event"] == "launch");
  CHECK(json::parse(lines[2])["event"] == "launch");
  CHECK(json::parse(lines[3])["event"] == "launch");
  const json summary = json::parse(lines[4]);
  CHECK(summary["event"] == "summary");
  CHECK(summary["exact"] == 1);
  CHECK(summary["failed"] == 0);
}

TEST_CASE("what a choice and a load took is no more than the call took") {
  const disk files = with_two_variants();
  sy::catalog catalog{with_debug(files, sy::debug_level::choices, true)};
  const auto driver = std::make_shared<faulty_driver>();
  driver->load_delay_ms = 20;
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run(on, {.seqlen = 1024}) == 2);
  const std::chrono::duration<double, std::micro> call = std::chrono::steady_clock::now() - begin;
  const json line = json::parse(lines_of(files.log()).at(0));
  const double selected = line["select_ns"].get<double>() / 1000;
  const auto loaded = line["load_us"].get<double>();
  CHECK(selected >= 0);
  CHECK(loaded >= 20'000);
  CHECK(selected + loaded <= call.count() + 1);  // what is printed is rounded
}

TEST_CASE("a debug file may hold the process id in its name") {
  const disk files = with_two_variants();
  sy::catalog_options options = with_debug(files, sy::debug_level::choices);
  options.settings.debug_file = (files.root() / "debug.%p.txt").string();
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  (void)run(on, {});
  CHECK(count_of(read_text(files.root() / ("debug." + std::to_string(::getpid()) + ".txt")),
                 "switchyard: stamp") == 1);
}

TEST_CASE("without a table the manifest's order decides, and the line says so") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  sy::catalog catalog{with_debug(files, sy::debug_level::choices)};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  CHECK(run(on, {}) == 1);
  CHECK_THAT(files.log(), has_text("heuristic: no table has rows"));
}

TEST_CASE("another device's table is used where there is no nearer one, and the line says so") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  files.write(
      files.table_path("stamp"),
      disk::make_table("stamp", {stamp_group({row(1, 64, {{"two", 1.0}, {"one", 2.0}})})}, "Some other CPU")
          .dump());
  sy::catalog catalog{with_debug(files, sy::debug_level::choices)};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  CHECK(run(on, {.seqlen = 64}) == 2);
  CHECK_THAT(files.log(), has_text("other device (same_arch)"));
}

TEST_CASE("a row measured with another blob serves, and is called stale") {
  const disk files = with_two_variants();
  json table = disk::make_table("stamp", {stamp_group({row(1, 64, {{"two", 1.0}, {"one", 2.0}})})});
  table["blobs"] = {{"two", "0123456789abcdef"}};
  files.write(files.table_path("stamp"), table.dump());
  sy::catalog catalog{with_debug(files, sy::debug_level::choices)};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  CHECK(run(on, {.seqlen = 64}) == 2);
  CHECK(on.explain({.seqlen = 64}).chosen.stale);
  CHECK_THAT(files.log(), has_text("stale"));
}

TEST_CASE("a call that no variant serves names the nearest") {
  const disk files;
  json conditional = stamp_variant("long_only", 3, {{"dtype", "bf16"}, {"head_dim", 128}});
  conditional["requires"] = {"seqlen >= 64"};
  files.put_manifest("stamp", {stamp_variant("one", 1, {{"dtype", "f32"}, {"head_dim", 64}}), conditional});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  const auto message = [&](const stamp::arguments& call) {
    return sy::test::refusal_by<sy::call_error>(sy::error_code::no_variant, [&] { return run(on, call); });
  };
  CHECK_THAT(message({.dtype = sy::dtype::bf16, .head_dim = 128, .seqlen = 63}),
             has_text("long_only (requires seqlen >= 64)") && !has_text("one ("));
  CHECK_THAT(message({.dtype = sy::dtype::f16, .head_dim = 64}),
             has_text("one (serves dtype=f32, not f16)") && has_text("dtype=f16 head_dim=64"));
  CHECK(run(on, {.dtype = sy::dtype::bf16, .head_dim = 128, .seqlen = 64}) == 3);

  const disk empty;
  sy::catalog nothing_there{empty.options()};
  sy::dispatcher<stamp> nowhere{nothing_there, sy::device::host()};
  CHECK_THROWS_WITH(run(nowhere, {}), has_text("no manifest of this operator was found") &&
                                          has_text("SWITCHYARD_PATH") &&
                                          has_text("Searched: " + nothing_there.roots().front()));
  sy::catalog_options missing = empty.options();
  missing.roots = {"/there/is/no/such/folder"};
  sy::catalog none{std::move(missing)};
  sy::dispatcher<stamp> lost{none, sy::device::host()};
  CHECK_THROWS_WITH(run(lost, {}), has_text("Searched: /there/is/no/such/folder (does not exist)"));

  // A folder inside of a root.
  const std::string root = files.root().string();
  for (const std::string slash : {"", "/"}) {
    sy::catalog_options inside = empty.options();
    inside.roots = {root + "/kernels" + slash};
    sy::catalog wrong{std::move(inside)};
    sy::dispatcher<stamp> nothing{wrong, sy::device::host()};
    CHECK_THROWS_WITH(
        run(nothing, {}),
        has_text("/kernels" + slash + " (has no folder kernels or tables; did you mean " + root + "?)"));
  }
}

TEST_CASE("where the driver of installed kernels cannot be opened, a refused call says that first") {
  const disk files;
  files.write(files.manifest_path("stamp"), R"({"schema": "switchyard.manifest/1", "operator": "stamp",
    "target": {"backend": "hip", "arch": "gfx942"}, "variants": []})");
  disk_dispatcher<stamp> on{files, sy::device::host()};
  // Asked twice, hipInit may name two errors: without a device, ROCm 5's says 101 at first and 100 from then
  // on.
  std::vector<std::string> reasons;
  for (int i = 0; i < 2; ++i) {
    try {
      static_cast<void>(sy::hip::count());
      return;  // a machine with such a device
    } catch (const sy::driver_error& problem) {
      const std::string why = problem.what();
      reasons.push_back("[switchyard.302] " + why.substr(why.find("] ") + 2) +
                        ", so the CPU was asked. stamp {");
    }
  }
  CHECK_THROWS_WITH(run(on, {}), (has_text(reasons[0]) || has_text(reasons[1])) &&
                                     has_text("they are built for hip gfx942"));
}

TEST_CASE("illegal arguments are refused before anything runs") {
  const disk files{"axpy",
                   {{{"id", "only"},
                     {"launches",
                      {{{"blob", "arithmetic.so"},
                        {"kernel", "axpy_f32"},
                        {"block", {"max(n, 1)", 1, 1}},
                        {"parameters", {"a", "x", "y", "n"}}}}}}}};
  disk_dispatcher<axpy> on{files, sy::device::host()};
  alignas(16) std::array<float, 8> memory{};
  const float* misaligned = reinterpret_cast<const float*>(reinterpret_cast<const char*>(memory.data()) + 2);
  on(nullptr, {.a = 1, .x = memory.data(), .y = memory.data(), .n = 8});
  const auto message = [&](const axpy::arguments& call) {
    std::string text = "it was launched";
    for (int i = 0; i < 2; ++i) {  // an illegal call leaves no plan behind
      try {
        on(nullptr, call);
        return std::string{"it was launched"};
      } catch (const sy::call_error& problem) {
        CHECK(problem.code() == sy::error_code::invalid_argument);
        text = problem.what();
      }
    }
    return text;
  };
  const axpy::arguments without_x{.a = 1, .x = nullptr, .y = memory.data(), .n = 8};
  CHECK_THROWS_WITH(on.workspace_bytes(without_x), has_text("axpy: x and y must not be null"));
  CHECK_THROWS_WITH(on.prepare(without_x), has_text("axpy: x and y must not be null"));
  CHECK_THAT(message({.a = 1, .x = nullptr, .y = memory.data(), .n = 8}),
             has_text("axpy: x and y must not be null"));
  CHECK_THAT(message({.a = 1, .x = misaligned, .y = memory.data(), .n = 8}), has_text("aligned to 4 bytes"));
  CHECK_THAT(message({.a = 1, .x = memory.data(), .y = memory.data(), .n = -1}),
             has_text("axpy: n must not be negative; called with "));
  CHECK_THAT(message({.a = 1, .x = memory.data(), .y = memory.data(), .n = -1}), has_text("n=-1"));
  CHECK_THROWS_WITH(on.workspace_bytes({.a = 1, .x = memory.data(), .y = memory.data(), .n = -2}),
                    has_text("n=-2"));
  CHECK_THROWS_WITH(on.prepare({.a = 1, .x = nullptr, .y = memory.data(), .n = 8}),
                    has_text("must not be null"));
}
