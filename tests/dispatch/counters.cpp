// SPDX-License-Identifier: MIT
// What a catalog counts, and the file that Prometheus reads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include <switchyard/observing/prometheus.hpp>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

[[nodiscard]] sy::operator_counters counters_of(const sy::catalog& catalog, const std::string& name) {
  for (const sy::operator_counters& counters : catalog.counters().operators) {
    if (counters.name == name) return counters;
  }
  FAIL("nothing was counted for " << name);
  return {};
}

[[nodiscard]] std::uint64_t count_of_code(const std::vector<sy::counted_code>& from, sy::error_code code) {
  for (const sy::counted_code& counted : from) {
    if (counted.code == static_cast<int>(code)) return counted.count;
  }
  return 0;
}

[[nodiscard]] std::uint64_t count_of_reason(const sy::operator_counters& from, sy::reason why) {
  return from.choices[static_cast<std::size_t>(why)];
}

struct counted_engine {
  disk files;
  std::shared_ptr<faulty_driver> driver = std::make_shared<faulty_driver>();
  std::unique_ptr<sy::catalog> catalog;
  std::unique_ptr<sy::dispatcher<stamp>> on;

  explicit counted_engine(std::vector<json> variants, std::size_t plan_capacity = 4096) {
    files.put_manifest("stamp", std::move(variants));
    sy::catalog_options options = files.options();
    options.plan_capacity = plan_capacity;
    catalog = std::make_unique<sy::catalog>(std::move(options));
    on = std::make_unique<sy::dispatcher<stamp>>(*catalog, sy::device{driver});
  }
  [[nodiscard]] sy::operator_counters read() const { return counters_of(*catalog, "stamp"); }
};

}  // namespace

TEST_CASE("plans, choices and loads are counted, and warm calls are not") {
  counted_engine engine{{stamp_variant("one", 1)}};
  CHECK(engine.read().plans == 0);
  for (int i = 0; i < 5; ++i) CHECK(run(*engine.on, {.seqlen = 1}) == 1);
  CHECK(run(*engine.on, {.seqlen = 2}) == 1);
  engine.on->prepare({.seqlen = 3});
  const sy::operator_counters found = engine.read();
  CHECK(found.plans == 3);
  CHECK(found.loads == 1);
  CHECK(found.failed_loads == 0);
  CHECK(count_of_reason(found, sy::reason::heuristic) == 3);
  CHECK(count_of_reason(found, sy::reason::exact) == 0);
  CHECK(found.errors.empty());
  CHECK(found.displaced_plans == 0);
}

TEST_CASE("plans that the cache had no room for are counted") {
  counted_engine engine{{stamp_variant("one", 1)}, 4};
  for (std::int64_t seqlen = 1; seqlen <= 40; ++seqlen) CHECK(run(*engine.on, {.seqlen = seqlen}) == 1);
  const sy::operator_counters found = engine.read();
  CHECK(found.plans == 40);
  CHECK(found.displaced_plans > 0);
  CHECK(found.displaced_plans < 40);
}

TEST_CASE("replacements and reloads are counted") {
  counted_engine engine{{stamp_variant("one", 1)}};
  CHECK(run(*engine.on, {}) == 1);
  (void)engine.catalog->reload();
  CHECK(engine.catalog->counters().reloads == 0);  // nothing changed
  engine.files.put_manifest("stamp", {stamp_variant("two", 2)});
  (void)engine.catalog->reload();
  CHECK(run(*engine.on, {}) == 2);
  CHECK(engine.catalog->counters().reloads == 1);
  CHECK(engine.catalog->counters().generation == engine.catalog->generation());
  CHECK(engine.read().replacements == 1);
  CHECK(engine.read().refused_replacements == 0);

  json broken = stamp_variant("three", 3);
  broken["launches"][0]["kernel"] = "no_such_kernel";
  engine.files.put_manifest("stamp", {broken});
  (void)engine.catalog->reload();
  CHECK(run(*engine.on, {}) == 2);
  CHECK(engine.read().replacements == 1);
  CHECK(engine.read().refused_replacements == 1);
  CHECK(engine.read().failed_loads == 1);
}

TEST_CASE("errors of calls are counted by number, and warnings of the log by theirs") {
  json lost = stamp_variant("lost", 9);
  lost["launches"][0]["sha256"] = std::string(64, '0');
  counted_engine engine{{lost, stamp_variant("one", 1)}};
  CHECK(run(*engine.on, {}) == 1);
  CHECK(engine.read().failed_loads == 1);
  CHECK(engine.read().loads == 1);
  CHECK(engine.read().errors.empty());  // the next candidate served
  CHECK(count_of_code(engine.catalog->counters().warnings, sy::error_code::blob_hash_differs) == 1);

  CHECK_THROWS_AS(run(*engine.on, {.dtype = sy::dtype::bf16}), sy::call_error);
  CHECK_THROWS_AS(engine.on->prepare({.dtype = sy::dtype::bf16}), sy::call_error);
  CHECK(count_of_code(engine.read().errors, sy::error_code::no_variant) == 2);
  CHECK(count_of_reason(engine.read(), sy::reason::none) == 2);

  engine.driver->launch_status = 7;
  CHECK_THROWS_AS(run(*engine.on, {}), sy::driver_error);             // met before
  CHECK_THROWS_AS(run(*engine.on, {.seqlen = 5}), sy::driver_error);  // new
  CHECK(count_of_code(engine.read().errors, sy::error_code::launch_failed) == 2);
  CHECK(engine.read().errors.size() == 2);
}

TEST_CASE("an illegal call is counted") {
  const disk files{"axpy",
                   {{{"id", "any"},
                     {"launches",
                      {{{"blob", "arithmetic.so"},
                        {"kernel", "axpy_f32"},
                        {"parameters", {"a", "x", "y", "n", {{"i32", 64}}}}}}}}}};
  disk_dispatcher<axpy> on{files, fresh_host()};
  CHECK_THROWS_AS(on(nullptr, {.n = 1}), sy::call_error);
  CHECK_THROWS_AS(on.prepare({.n = 1}), sy::call_error);
  CHECK(count_of_code(counters_of(on.catalog, "axpy").errors, sy::error_code::invalid_argument) == 2);
}

TEST_CASE("what a sealed catalog counts is also counted for each operator, over all seals") {
  counted_engine engine{{stamp_variant("one", 1)}};
  engine.catalog->seal();
  CHECK(run(*engine.on, {.seqlen = 1}) == 1);
  engine.catalog->seal({.plan = sy::seal_action::refuse});
  CHECK_THROWS_AS(run(*engine.on, {.seqlen = 2}), sy::call_error);
  engine.catalog->seal({.load = sy::seal_action::refuse, .fallback = sy::seal_action::refuse});
  CHECK_THROWS_AS(run(*engine.on, {.seqlen = 3}), sy::call_error);
  const sy::operator_counters found = engine.read();
  CHECK(found.unprepared_plans == 3);
  CHECK(found.unprepared_loads == 1);
  CHECK(found.unprepared_fallbacks == 2);
  CHECK(found.refused_calls == 2);
  CHECK(count_of_code(found.errors, sy::error_code::not_prepared) == 2);
}

TEST_CASE("a variant that does not fit is counted as passed over, for each problem") {
  json wide = stamp_variant("wide", 9);
  wide["launches"][0]["grid"] = {"batch / (seqlen - 1)", 1, 1};
  counted_engine engine{{wide, stamp_variant("one", 1)}};
  CHECK(run(*engine.on, {.batch = 1, .seqlen = 1}) == 1);
  CHECK(run(*engine.on, {.batch = 2, .seqlen = 1}) == 1);
  CHECK(engine.read().passed_over == 2);
}

TEST_CASE("counters of many threads add up") {
  counted_engine engine{{stamp_variant("one", 1)}};
  constexpr int threads = 4;
  constexpr int problems = 50;
  std::atomic<bool> stops{false};
  std::thread reader{[&] {
    while (!stops) (void)sy::to_prometheus(engine.catalog->counters());
  }};
  sy::test::run_threads(threads, [&engine](int t) {
    for (int i = 1; i <= problems; ++i) (void)run(*engine.on, {.batch = t + 1, .seqlen = i});
  });
  stops = true;
  reader.join();
  CHECK(engine.read().plans == threads * problems);
  CHECK(count_of_reason(engine.read(), sy::reason::heuristic) == threads * problems);
}

TEST_CASE("a metrics file is written as a whole, at once and when the catalog goes") {
  counted_engine engine{{stamp_variant("one", 1)}};
  const std::string path = (engine.files.root() / "switchyard.prom").string();
  engine.catalog->write_counters(path, std::chrono::hours{1});
  CHECK_THAT(read_text(path), has_text("switchyard_plans_total{operator=\"stamp\"} 0\n"));
  CHECK(run(*engine.on, {}) == 1);
  engine.on = nullptr;
  engine.catalog = nullptr;
  CHECK_THAT(read_text(path), has_text("switchyard_plans_total{operator=\"stamp\"} 1\n"));
  for (const auto& entry : std::filesystem::directory_iterator{engine.files.root()})
    CHECK(entry.path().extension() != ".partial");
}

TEST_CASE("a metrics file is written at an interval, also when a thread reads it") {
  counted_engine engine{{stamp_variant("one", 1)}};
  const std::string path = (engine.files.root() / "switchyard.prom").string();
  engine.catalog->write_counters(path, std::chrono::milliseconds{1});
  CHECK(run(*engine.on, {}) == 1);
  bool is_seen = false;
  for (int i = 0; i < 5000 && !is_seen; ++i) {
    const std::string text = read_text(path);
    REQUIRE(count_of(text, "# TYPE ") == 21);
    REQUIRE(text.ends_with("\n"));
    is_seen = contains(text, "switchyard_plans_total{operator=\"stamp\"} 1\n");
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  CHECK(is_seen);
}

TEST_CASE("a metrics file that cannot be written is one warning, and is written again later") {
  counted_engine engine{{stamp_variant("one", 1)}};
  const std::filesystem::path folder = engine.files.root() / "metrics";
  CHECK_THROWS_WITH(engine.catalog->write_counters((folder / "a.prom").string()),
                    has_text("[switchyard.101]") && has_text("a.prom: cannot be written"));
  std::filesystem::create_directory(folder);
  engine.catalog->write_counters((folder / "a.prom").string(), std::chrono::milliseconds{1});
  std::filesystem::rename(folder, engine.files.root() / "gone");  // at once: the writer is at work
  const auto wait_for = [&](const auto& done) {
    for (int i = 0; i < 5000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return done();
  };
  CHECK(wait_for([&] { return contains(engine.files.log(), "writing counters"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK(count_of(engine.files.log(), "writing counters") == 1);
  std::filesystem::create_directory(folder);
  CHECK(wait_for([&] { return std::filesystem::exists(folder / "a.prom"); }));
}

TEST_CASE("SWITCHYARD_METRICS names the file, and one that cannot be written ends no engine") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  sy::catalog_options options = files.options();
  options.settings.metrics = (files.root() / "a-%p.prom").string();
  const std::string path = (files.root() / ("a-" + std::to_string(::getpid()) + ".prom")).string();
  {
    sy::catalog catalog{options};
    sy::dispatcher<stamp> on{catalog, fresh_host()};
    CHECK(run(on, {}) == 1);
  }
  CHECK_THAT(read_text(path), has_text("switchyard_loads_total{operator=\"stamp\"} 1\n"));

  options.settings.metrics = (files.root() / "absent" / "a.prom").string();
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 1);
  CHECK_THAT(files.log(), has_text("SWITCHYARD_METRICS: [switchyard.101] ") && has_text("cannot be written"));
}
