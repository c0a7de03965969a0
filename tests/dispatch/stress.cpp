// SPDX-License-Identifier: MIT
// Eight threads that launch while the catalog is replaced again and again. Built with ThreadSanitizer as
// well.
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "catch.hpp"
#include "environment.hpp"
#include "faulty_driver.hpp"
#include "memory_growth.hpp"
#include "sanitized.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

constexpr std::uint32_t default_replacements = sanitized ? 500 : 10'000;

int replacements() {
  return static_cast<int>(sy::test::number("SWITCHYARD_TEST_REPLACEMENTS", default_replacements));
}

}  // namespace

TEST_CASE("no call fails while the catalog is replaced under eight threads, and memory stays flat") {
  const disk files;
  const auto put_manifest = [&files](bool other) {
    files.put_blob("stamp", other ? "stamp_other.so" : "stamp.so", "stamp.so");
    files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
  };
  const auto put_table = [&files](bool other) {
    files.put_table("stamp", {stamp_group({row(1, 64, {{"one", other ? 9.0 : 1.0}, {"two", 5.0}})})});
  };
  put_manifest(false);
  put_table(false);
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.plan_capacity = 16;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> first{catalog, sy::device{driver}};
  sy::dispatcher<stamp> second{catalog, sy::device{driver}};

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<unsigned> seen{0};
  auto threads = sy::test::start_threads(8, [&](int t) {
    sy::dispatcher<stamp>& on = t % 2 == 0 ? first : second;
    std::uint64_t made = 0;
    unsigned found = 0;
    std::uint64_t state = static_cast<std::uint64_t>(t) * 0x9e3779b97f4a7c15U + 1;
    while (!stop.load(std::memory_order_relaxed)) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      try {
        // Mostly the same few problems; now and then one that displaces another's plan.
        const auto draw = static_cast<std::int64_t>(state >> 40U);
        const int out = run(on, {.seqlen = draw % 64 == 0 ? 64 + draw % 1000 : 64 + draw % 4});
        if (out % 1000 == 1 || out % 1000 == 2) {
          found |= 1U << static_cast<unsigned>((out / 1000) * 2 + out % 1000 - 1);
        } else {
          ++wrong;
        }
      } catch (const std::exception&) {
        ++failed;
      }
      ++made;
    }
    calls += made;
    seen |= found;
  });
  memory_growth memory;
  const int count = replacements();
  for (int i = 1; i <= count; ++i) {
    put_table(i % 2 == 1);
    if (i % 50 == 0) put_manifest(i % 100 == 50);
    const auto report = catalog.reload();
    REQUIRE(report.refused.empty());
    REQUIRE_FALSE(report.changed.empty());
    memory.sample(static_cast<double>(i) / count);
  }
  stop = true;
  sy::test::join_all(threads);
  INFO(calls << " calls, at least " << memory.early() << " bytes live in the second quarter, "
             << memory.late() << " in the last");
  CHECK(failed == 0);
  CHECK(wrong == 0);
  CHECK(seen == 15U);  // both variants, of both blobs
  CHECK(calls > static_cast<std::uint64_t>(count));
  CHECK(files.log().empty());
  REQUIRE(memory.is_sampled());
  CHECK(memory.is_flat());
  CHECK(driver->loads == 2);  // each content once
}

TEST_CASE("threads meet many new problems at once") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  files.put_table("stamp", {stamp_group({row(1, 64, {{"one", 1.0}, {"two", 5.0}})})});
  sy::catalog_options options = files.options();
  options.plan_capacity = 8;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  std::atomic<int> wrong{0};
  const std::int64_t steps = replacements();
  sy::test::run_threads(std::int64_t{8}, [&](std::int64_t t) {
    for (std::int64_t i = 1; i <= steps; ++i) {
      if (run(on, {.batch = 1 + t % 2, .seqlen = i}) != 1) ++wrong;
    }
  });
  CHECK(wrong == 0);
}
