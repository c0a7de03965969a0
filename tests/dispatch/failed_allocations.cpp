// SPDX-License-Identifier: MIT
// Reloads that find no memory, at each place where they ask for some: what serves goes on serving, nothing
// ends the process, and the next reload takes the new files.
#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "allocation_counter.hpp"
#include "catch.hpp"
#include "environment.hpp"
#include "faulty_driver.hpp"
#include "sanitized.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;
using fault = failing_allocations;

/// Which of a reload's allocations fail: one, or all from one on until it ends.
const std::vector<fault::until>& extents() {
  static const std::vector<fault::until> all{fault::until::next, fault::until::end};
  return all;
}

[[nodiscard]] const char* name_of(fault::until extent) {
  return extent == fault::until::next ? "one fails" : "all fail from one on";
}

/// The allocation that fails in a step, from 1 on: each of them. With a sanitizer, which makes a reload take
/// many times as long, one in four, from a random one on.
[[nodiscard]] std::uint64_t allocation_of(int step) {
  constexpr std::uint64_t apart = sanitized ? 4 : 1;
  static const std::uint64_t first = 1 + sy::test::fresh_seed() % apart;
  return first + (static_cast<std::uint64_t>(step) - 1) * apart;
}

/// Reloads while memory is short. False where the step's allocation was not reached.
[[nodiscard]] bool reload_short(sy::catalog& catalog, int step, fault::until extent) {
  const fault no_memory{allocation_of(step), fault::threads::mine, extent};
  try {
    (void)catalog.reload();
  } catch (const std::bad_alloc&) {
  }
  return no_memory.was_reached();
}

/// Writes a manifest whose first variant is never chosen while the table is read: "one" and "two" write
/// `number` and the number behind it. A row names an id that other types alone have.
void put_manifest(const disk& files, int number) {
  files.put_manifest(
      "stamp", {stamp_variant("never", 99), stamp_variant("one", number), stamp_variant("two", number + 1),
                stamp_variant("elsewhere", 98, {{"dtype", "f16"}})});
}

/// Writes a table in which one of the two wins.
void put_table(const disk& files, const std::string& winner) {
  const std::string other = winner == "one" ? "two" : "one";
  files.put_table("stamp", {stamp_group({row(1, 1, {{winner, 1.0}, {other, 2.0}, {"elsewhere", 3.0}}),
                                         row(1, 64, {{winner, 1.0}, {other, 2.0}})})});
}

/// Fails each allocation of the reload that reads what `change(step)` wrote. Calls get `number(step)` once it
/// is read.
void fail_each(const std::function<void(const disk&, int)>& change, const std::function<int(int)>& number,
               fault::until extent) {
  const disk files;
  put_manifest(files, 1);
  put_table(files, "one");
  disk_dispatcher<stamp> on{files, fresh_host()};
  change(files, 0);
  (void)on.catalog.reload();
  REQUIRE(run(on, {}) == number(0));
  bool was_reached = true;
  int step = 1;
  for (; was_reached && step < 20'000; ++step) {
    INFO("allocation " << allocation_of(step));
    change(files, step);
    was_reached = reload_short(on.catalog, step, extent);
    const int got = run(on, {});
    // A reload that was over may fail, for example where it logs.
    if (got != number(step)) REQUIRE(got == number(step - 1));
    (void)on.catalog.reload();
    REQUIRE(run(on, {}) == number(step));
    REQUIRE(run(on, {.seqlen = 64}) == number(step));  // a new problem
  }
  CHECK(!was_reached);
  CHECK(allocation_of(step) > 100);
  // Nothing that was read in part is believed.
  const std::string log = files.log();
  for (const char* const wrong : {"is not JSON", "is not a number", "[switchyard.107]", "[switchyard.110]"})
    CHECK_FALSE(contains(log, wrong));
}

}  // namespace

TEST_CASE("a table's reload that finds no memory leaves what serves, and the next one takes the table") {
  for (const fault::until extent : extents()) {
    DYNAMIC_SECTION(name_of(extent)) {
      fail_each([](const disk& files, int step) { put_table(files, step % 2 == 0 ? "one" : "two"); },
                [](int step) { return step % 2 == 0 ? 1 : 2; }, extent);
    }
  }
}

TEST_CASE("a manifest's reload that finds no memory leaves what serves, and the next one takes it") {
  for (const fault::until extent : extents()) {
    DYNAMIC_SECTION(name_of(extent)) {
      fail_each([](const disk& files, int step) { put_manifest(files, step % 2 == 0 ? 1 : 5); },
                [](int step) { return step % 2 == 0 ? 1 : 5; }, extent);
    }
  }
}

TEST_CASE("a bad file that is read without memory changes nothing, and a good one is taken after it") {
  const std::vector<std::string> faults{
      R"({"schema": "switchyard.table/1", "operator": "stamp", "groups": [{"rows": [{"at": [[1,)",
      R"([[{"a": [{"b": [1, 2, {"c": "d"}]}, {"e": {}}]}], [[]], {"f": [[1]]}])",
      R"({"schema": "switchyard.table/1", "operator": "stamp", "device": {"a": [{"b": [[1]]}]}, "groups": {}})",
      R"({"schema": "switchyard.table/1", "operator": "stamp", "x": {"a": [1], "a": {"b": [2]}}, "groups": []})"};
  for (const fault::until extent : extents()) {
    for (const std::string& bad : faults) {
      DYNAMIC_SECTION(name_of(extent) << ": " << bad) {
        const disk files;
        put_manifest(files, 1);
        put_table(files, "one");
        disk_dispatcher<stamp> on{files, fresh_host()};
        CHECK(run(on, {}) == 1);
        bool was_reached = true;
        int step = 1;
        for (; was_reached && step < 20'000; ++step) {
          INFO("allocation " << allocation_of(step));
          files.write(files.table_path("stamp"), bad);
          was_reached = reload_short(on.catalog, step, extent);
          REQUIRE(run(on, {}) == 1);
          (void)on.catalog.reload();
          REQUIRE(run(on, {}) == 1);
        }
        CHECK(!was_reached);
        CHECK(allocation_of(step) > 50);
        put_table(files, "two");
        (void)on.catalog.reload();
        CHECK(run(on, {}) == 2);
      }
    }
  }
}

TEST_CASE("a blob that comes while there is no memory is noticed by the next reload") {
  json late = stamp_variant_in("late.so", "late", 1);
  late["launches"][0]["sha256"] = disk::hash_of(disk::built("stamp_other.so"));
  for (const fault::until extent : extents()) {
    DYNAMIC_SECTION(name_of(extent)) {
      bool was_reached = true;
      int step = 1;
      for (; was_reached && step < 20'000; ++step) {
        INFO("allocation " << allocation_of(step));
        const disk files{"stamp", {late, stamp_variant("other", 2)}};
        disk_dispatcher<stamp> on{files, fresh_host()};
        REQUIRE(run(on, {}) == 2);
        files.put_blob("stamp", "stamp_other.so", "late.so");
        was_reached = reload_short(on.catalog, step, extent);
        const int got = run(on, {});
        if (got != 1001) REQUIRE(got == 2);
        (void)on.catalog.reload();
        // A load that found no memory is tried again after a second.
        for (int i = 0; i < 300 && run(on, {}) != 1001; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds{10});
        REQUIRE(run(on, {}) == 1001);
      }
      CHECK(!was_reached);
      CHECK(allocation_of(step) > 20);
    }
  }
}

TEST_CASE("a watching thread that finds no memory goes on, and takes the new files later") {
  for (const fault::until extent : extents()) {
    DYNAMIC_SECTION(name_of(extent)) {
      const disk files;
      put_manifest(files, 1);
      put_table(files, "one");
      disk_dispatcher<stamp> on{files, fresh_host()};
      REQUIRE(run(on, {}) == 1);
      bool was_reached = true;
      int step = 1;
      for (; was_reached && step < 20'000; ++step) {
        INFO("allocation " << allocation_of(step));
        const int before = step % 2 == 0 ? 2 : 1;
        const int after = 3 - before;
        put_table(files, after == 1 ? "one" : "two");
        bool is_right = true;
        {
          // Before the watching thread starts: its first look may be over before this thread goes on.
          const fault no_memory{allocation_of(step), fault::threads::others, extent};
          on.catalog.watch(std::chrono::milliseconds{1});
          int got = before;
          // Each look allocates, so that the number is reached in the end; what is asked is that it is by
          // the reload. Where one allocation alone fails, the next look may have taken the files before
          // this thread goes on.
          while (is_right && got != after && !no_memory.was_reached()) {
            got = run(on, {});
            is_right = got == before || got == after;
            std::this_thread::yield();
          }
          was_reached = no_memory.was_reached();
        }
        REQUIRE(is_right);
        int got = before;
        for (int i = 0; i < 5000 && got != after; ++i) {
          got = run(on, {});
          if (got != after) REQUIRE(got == before);
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        REQUIRE(got == after);
        on.catalog.stop_watching();
      }
      CHECK(!was_reached);
      CHECK(allocation_of(step) > 100);
    }
  }
}
