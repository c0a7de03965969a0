// SPDX-License-Identifier: MIT
// An engine's weeks in minutes: threads that come and go, new shapes, replaced tables and blobs, loads that
// find no memory, two dispatchers. SWITCHYARD_TEST_SECONDS says how long; .ci/run soak runs it for ten
// minutes.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>

#include "catch.hpp"
#include "environment.hpp"
#include "faulty_driver.hpp"
#include "memory_growth.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t default_seconds = 3;

struct totals {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> failed{0};
};

/// A thread's short life: some calls of known problems and of new ones.
void live(sy::dispatcher<stamp>& on, std::uint64_t seed, totals& sum) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto draw = static_cast<std::int64_t>(state >> 40U);
    try {
      const int out = run(on, {.seqlen = draw % 16 == 0 ? 64 + draw % 100'000 : 64 + draw % 8});
      if (out % 1000 != 1 && out % 1000 != 2) ++sum.wrong;
    } catch (const std::exception&) {
      ++sum.failed;
    }
    ++sum.calls;
  }
}

}  // namespace

TEST_CASE("soak: no call fails and memory stays flat while everything changes") {
  const disk files;
  const auto put_manifest = [&files](bool other) {
    files.put_blob("stamp", other ? "stamp_other.so" : "stamp.so", "first.so");
    files.put_manifest("stamp", {stamp_variant_in("first.so", "one", 1), stamp_variant("two", 2)});
  };
  const auto put_table = [&files](bool other) {
    files.put_table("stamp", {stamp_group({row(1, 64, {{"one", other ? 9.0 : 1.0}, {"two", 5.0}})})});
  };
  put_manifest(false);
  put_table(false);
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.plan_capacity = 256;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> first{catalog, sy::device{driver}};
  sy::dispatcher<stamp> second{catalog, sy::device{driver}};
  CHECK(run(first, {.seqlen = 64}) == 1);
  first.prepare(stamp::arguments{}, {{"seqlen", 64, 1000}});

  totals sum;
  std::atomic<bool> stop{false};
  auto keepers = sy::test::start_threads(std::uint64_t{4}, [&](std::uint64_t t) {
    for (std::uint64_t life = 0; !stop; ++life) {
      std::thread{[&] { live(t % 2 == 0 ? first : second, t + 4 * life, sum); }}.join();
    }
  });
  const auto seconds = sy::test::number("SWITCHYARD_TEST_SECONDS", default_seconds);
  const auto end = steady::now() + std::chrono::seconds{seconds};
  const std::chrono::duration<double> length{static_cast<double>(seconds)};
  memory_growth memory;
  std::uint64_t reloads = 0;
  for (; steady::now() < end; ++reloads) {
    put_table(reloads % 2 == 0);
    if (reloads % 5 == 0) put_manifest(reloads % 10 == 0);
    if (reloads % 7 == 0) {
      // Unloaded first, so that the replacement has to load, and fails in part of its loads.
      (void)catalog.unload_unused();
      driver->loads_that_fail = 1;
    }
    (void)catalog.reload();
    driver->loads_that_fail = 0;
    memory.sample(1 - (end - steady::now()) / length);
  }
  stop = true;
  sy::test::join_all(keepers);
  REQUIRE(memory.is_sampled());
  WARN(sum.calls << " calls, " << reloads << " reloads, " << driver->loads << " loads, at least "
                 << memory.early() << " bytes live in the second quarter, " << memory.late()
                 << " in the last");
  CHECK(sum.failed == 0);
  CHECK(sum.wrong == 0);
  CHECK(memory.is_flat());
  CHECK(driver->loads - driver->unloads <= 3);
}
