// SPDX-License-Identifier: MIT
// What replacing files may cost a thread that calls: nothing. The driver sleeps while it loads and unloads.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;
using milliseconds = std::chrono::duration<double, std::milli>;

constexpr int delay_ms = 100;

void set_winner(const disk& files, const char* fast, const char* slow) {
  files.put_table("stamp", {stamp_group({row(1, 64, {{fast, 1.0}, {slow, 2.0}})})});
}

}  // namespace

TEST_CASE("no caller loads, unloads, or waits for a thread that does") {
  const disk files;
  files.put_blob("stamp", "stamp_other.so", "other.so");
  const auto put_manifest = [&](bool other) {
    files.put_manifest(
        "stamp", {stamp_variant("one", 1), stamp_variant_in(other ? "other.so" : "stamp.so", "two", 2)});
  };
  put_manifest(false);
  set_winner(files, "one", "two");
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.plan_capacity = 32;  // so that callers displace and free plans all the time
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  for (const std::int64_t seqlen : {1, 2, 3}) (void)run(on, {.seqlen = seqlen});
  driver->load_delay_ms = delay_ms;

  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::atomic<std::int64_t> slowest_ns{0};
  auto callers = sy::test::start_threads(2, [&](int t) {
    faulty_driver::is_caller = true;
    for (std::int64_t i = 0; !stop; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      try {
        (void)run(on, {.batch = 1 + t, .seqlen = i % 8 == 0 ? 4 + i : 1 + i % 3});
      } catch (const std::exception&) {
        ++failed;
      }
      const std::int64_t took = (std::chrono::steady_clock::now() - begin).count();
      if (took > slowest_ns) slowest_ns = took;
    }
  });
  for (int round = 0; round < 6; ++round) {
    if (round % 2 == 0) put_manifest(round % 4 == 0);
    set_winner(files, round % 2 == 0 ? "two" : "one", round % 2 == 0 ? "one" : "two");
    (void)catalog.reload();
    for (int i = 0; i < 20 && catalog.unload_unused() == 0; ++i) std::this_thread::yield();
  }
  stop = true;
  sy::test::join_all(callers);
  INFO("slowest call: " << slowest_ns / 1000 << " us");
  CHECK(failed == 0);
  CHECK(driver->loads > 1);
  CHECK(driver->unloads > 0);
  CHECK(driver->caller_entries == 0);
}

TEST_CASE("a call that needs one kernel does not wait for another that is being loaded") {
  const disk files;
  files.put_blob("stamp", "stamp_other.so", "other.so");
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant_in("other.so", "two", 2)});
  files.put_table(
      "stamp",
      {stamp_group({row(1, 1, {{"one", 1.0}, {"two", 2.0}}), row(1, 4096, {{"one", 2.0}, {"two", 1.0}})})});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run(on, {.seqlen = 1}) == 1);
  driver->load_delay_ms = 2000;
  std::atomic<bool> is_done{false};
  std::thread loads{[&] {
    (void)run(on, {.seqlen = 4096});
    is_done = true;
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{200});
  for (std::int64_t seqlen = 2; seqlen < 6; ++seqlen) CHECK(run(on, {.seqlen = seqlen}) == 1);
  CHECK_FALSE(is_done);
  loads.join();
  CHECK(run(on, {.seqlen = 4096}) == 1002);
}

TEST_CASE("the generation changes when a choice may have changed, and only then") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  set_winner(files, "one", "two");
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  const std::uint64_t first = on.catalog.generation();
  for (std::int64_t seqlen = 1; seqlen < 100; ++seqlen) CHECK(run(on, {.seqlen = seqlen}) == 1);
  (void)on.catalog.reload();
  CHECK(on.catalog.generation() == first);
  set_winner(files, "two", "one");
  (void)on.catalog.files(sy::describe<stamp>());  // reading the files does not hide the change from a reload
  CHECK(on.catalog.generation() == first);
  (void)on.catalog.reload();
  CHECK(on.catalog.generation() != first);
  CHECK(run(on, {}) == 2);
  const std::uint64_t second = on.catalog.generation();
  {
    sy::dispatcher<stamp> another{on.catalog, sy::device{driver}};
    CHECK(run(another, {}) == 2);
  }
  CHECK(on.catalog.generation() == second);
}

TEST_CASE("ranges that were prepared are prepared again by the thread that replaces") {
  const disk files;
  files.put_blob("stamp", "stamp_other.so", "other.so");
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant_in("other.so", "two", 2)});
  set_winner(files, "one", "two");
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare(stamp::arguments{}, {{"seqlen", 1, 4096}});
  set_winner(files, "two", "one");
  (void)on.catalog.reload();
  const int loads = driver->loads;
  driver->is_capturing = true;
  CHECK(run(on, {.seqlen = 77}) == 1002);  // loaded already: a capture may go on
  CHECK(driver->loads == loads);
}
