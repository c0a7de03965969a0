// SPDX-License-Identifier: MIT
// Loads that fail for what may pass: the variant is tried again, and no other is blamed.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;

/// Two variants in blobs of their own, the first one faster.
void put_two_blobs(const disk& files) {
  files.put_blob("stamp", "stamp_other.so", "other.so");
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant_in("other.so", "two", 2)});
  files.put_table("stamp", {stamp_group({row(1, 64, {{"one", 1.0}, {"two", 2.0}})})});
}

std::atomic<std::int64_t> now_ns{1'000'000'000};

/// A clock that stands still but for pass().
std::int64_t set_clock() noexcept {
  return now_ns;
}
void pass(std::chrono::milliseconds time) {
  now_ns += std::chrono::nanoseconds{time}.count();
}
sy::catalog_options with_set_clock(sy::catalog_options options) {
  options.clock = set_clock;
  return options;
}

/// What Put writes, served with that clock.
template <void (*Put)(const disk&)>
struct retried {
  const disk files;
  const std::shared_ptr<faulty_driver> driver = std::make_shared<faulty_driver>();
  sy::catalog catalog{(Put(files), with_set_clock(files.options()))};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
};

void put_one(const disk& files) {
  files.put_manifest("stamp", {stamp_variant("one", 1)});
}

}  // namespace

TEST_CASE("a variant that found no memory gives way, is tried again, and serves again") {
  const disk files;
  put_two_blobs(files);
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.settings.debug = sy::debug_level::choices;
  sy::catalog catalog{with_set_clock(options)};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  driver->loads_that_fail = 1;
  const std::uint64_t before = catalog.generation();
  CHECK(run(on, {}) == 1002);
  CHECK(catalog.generation() != before);
  CHECK_THAT(files.log(), has_text("[switchyard.210]") && has_text("variant 'one' of stamp") &&
                              has_text("is tried again in 1 s"));
  CHECK(run(on, {}) == 1002);  // not at once
  CHECK(run(on, {.seqlen = 3}) == 1002);
  const std::uint64_t waiting = catalog.generation();
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1);  // the problem that had to do without it as well
  CHECK(catalog.generation() != waiting);
  CHECK(run(on, {.seqlen = 3}) == 1);
  CHECK(run(on, {.seqlen = 4}) == 1);
  CHECK_THAT(files.log(), has_text("was loaded after 1 failures and serves again"));
  CHECK(count_of(files.log(), "warning") == 1);
}

TEST_CASE("it waits twice as long after each failure") {
  const disk files;
  put_two_blobs(files);
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.settings.debug = sy::debug_level::choices;
  sy::catalog catalog{with_set_clock(options)};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  driver->loads_that_fail = 1;
  CHECK(run(on, {}) == 1002);
  driver->loads_that_fail = 1;
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1002);
  CHECK_THAT(files.log(), has_text("is tried again in 2 s"));
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1002);
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1);
}

TEST_CASE("the wait doubles up to 64 s, and only the first failure is a warning") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog_options options = files.options();
  options.settings.debug = sy::debug_level::choices;
  sy::catalog catalog{with_set_clock(options)};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  driver->loads_that_fail = 1000;
  for (int i = 0; i < 8; ++i) CHECK_THROWS_AS(run(on, {}), sy::driver_error);  // the first tries twice
  std::vector<std::string> waits;
  for (const std::string& line : lines_of(files.log())) {
    constexpr std::string_view before = "is tried again in ";
    if (const std::size_t at = line.find(before); at != std::string::npos)
      waits.push_back(line.substr(at + before.size(), line.find(" s;") - at - before.size()));
  }
  CHECK(waits == std::vector<std::string>{"1", "2", "4", "8", "16", "32", "64", "64", "64"});
  CHECK(count_of(files.log(), "warning") == 1);
  driver->loads_that_fail = 0;
  CHECK(run(on, {}) == 1);
  CHECK_THAT(files.log(), has_text("variant 'one' of stamp was loaded after 9 failures and serves again"));
}

TEST_CASE_METHOD(retried<put_one>, "retries are told in debug output only") {
  driver->loads_that_fail = 3;
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(run(on, {}), sy::driver_error);
  CHECK(lines_of(files.log()).size() == 1);
  CHECK(run(on, {}) == 1);
  CHECK(lines_of(files.log()).size() == 1);
}

TEST_CASE("of several variants that wait, each is tried again when its own time has come") {
  const disk files;
  put_two_blobs(files);
  files.write(files.kernels("stamp") / "third.so", read_text(disk::built("stamp.so")) + "third");
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant_in("other.so", "two", 2),
                               stamp_variant_in("third.so", "three", 3)});
  files.put_table("stamp", {stamp_group({row(1, 64, {{"one", 1.0}, {"two", 2.0}, {"three", 3.0}})})});
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog catalog{with_set_clock(files.options())};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  driver->loads_that_fail = 2;
  CHECK(run(on, {}) == 3);
  CHECK(run(on, {}) == 3);
  CHECK(driver->loads == 1);
  pass(std::chrono::milliseconds{1100});
  driver->loads_that_fail = 1;  // the first one again
  CHECK(run(on, {}) == 1002);
  CHECK(driver->loads == 2);
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1002);
  CHECK(driver->loads == 2);
  pass(std::chrono::milliseconds{1100});
  CHECK(run(on, {}) == 1);
  CHECK(driver->loads == 3);
}

TEST_CASE_METHOD(
    retried<put_one>,
    "where nothing else serves, the call fails with the cause, and the next call tries at once") {
  for (int i = 0; i < 3; ++i) {
    driver->loads_that_fail = 2;  // the call tries again once by itself
    const auto problem = sy::test::error_of<sy::driver_error>([&] { return run(on, {}); });
    CHECK(problem.code() == sy::error_code::out_of_memory);
  }
  driver->loads_that_fail = 0;
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a broken context blames no variant") {
  const disk files;
  put_two_blobs(files);
  const auto driver = std::make_shared<faulty_driver>();
  driver->is_context_broken = true;
  sy::catalog catalog{with_set_clock(files.options())};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(run(on, {}), has_text("an illegal address"));
  CHECK(files.log().empty());
  driver->is_context_broken = false;
  CHECK(run(on, {}) == 1);
}

TEST_CASE_METHOD(retried<put_two_blobs>,
                 "a capture takes the variant that returned to service, and the generation tells of it") {
  driver->loads_that_fail = 1;
  CHECK(run(on, {.seqlen = 1}) == 1002);
  CHECK(run(on, {.seqlen = 2}) == 1002);
  pass(std::chrono::milliseconds{1100});
  const std::uint64_t before = catalog.generation();
  on.prepare({.seqlen = 1});  // loads the better variant
  CHECK(catalog.generation() != before);
  const std::uint64_t captured = catalog.generation();
  driver->is_capturing = true;
  CHECK(run(on, {.seqlen = 1}) == 1);
  CHECK(run(on, {.seqlen = 2}) == 1);
  driver->is_capturing = false;
  CHECK(run(on, {.seqlen = 2}) == 1);
  CHECK(catalog.generation() == captured);
}

TEST_CASE_METHOD(retried<put_two_blobs>,
                 "a retry that fails again does not change the generation of what serves") {
  driver->loads_that_fail = 1;
  CHECK(run(on, {}) == 1002);
  pass(std::chrono::milliseconds{1100});
  driver->loads_that_fail = 1;
  const std::uint64_t before = catalog.generation();
  CHECK(run(on, {}) == 1002);
  CHECK(catalog.generation() == before);
}

TEST_CASE_METHOD(retried<put_two_blobs>,
                 "a thread that has a plan does not wait while another tries a variant again") {
  driver->loads_that_fail = 1;
  CHECK(run(on, {}) == 1002);
  pass(std::chrono::milliseconds{1100});
  driver->holds_next_load = true;
  std::atomic<bool> is_done{false};
  std::thread tries{[&] {
    CHECK(run(on, {}) == 1);
    is_done = true;
  }};
  driver->held.wait(false);
  for (int i = 0; i < 10; ++i) CHECK(run(on, {}) == 1002);
  CHECK_FALSE(is_done);
  driver->may_go_on = true;
  driver->may_go_on.notify_all();
  tries.join();
  CHECK(run(on, {}) == 1);
}

TEST_CASE_METHOD(retried<put_one>,
                 "a watching catalog tries what it could not take again after a second, not at each look") {
  CHECK(run(on, {}) == 1);
  files.put_blob("stamp", "stamp_other.so", "stamp.so");
  files.put_manifest("stamp", {stamp_variant("one", 1)});
  driver->loads_that_fail = 1000;
  catalog.watch(std::chrono::milliseconds{10});
  const auto wait_until = [](const auto& is_so) {
    for (int looks = 0; looks < 1000 && !is_so(); ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    return is_so();
  };
  CHECK(wait_until([&] { return driver->loads_that_fail < 1000; }));
  std::this_thread::sleep_for(std::chrono::milliseconds{100});  // some looks more
  CHECK(driver->loads_that_fail >= 998);  // a variant that nothing can stand in for is tried twice
  CHECK(run(on, {}) == 1);
  driver->loads_that_fail = 0;
  pass(std::chrono::milliseconds{900});
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  CHECK(run(on, {}) == 1);
  pass(std::chrono::milliseconds{200});
  CHECK(wait_until([&] { return run(on, {}) == 1001; }));
  catalog.stop_watching();
  CHECK(run(on, {}) == 1001);
}

TEST_CASE("new files whose kernels cannot be loaded leave those in use that serve") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run(on, {}) == 1);
  const std::uint64_t generation = on.catalog.generation();
  SECTION("for want of memory") {
    files.put_blob("stamp", "stamp_other.so", "stamp.so");
    files.put_manifest("stamp", {stamp_variant("one", 1)});
    driver->loads_that_fail = 1000;
    const auto report = on.catalog.reload();
    REQUIRE(report.refused.size() == 1);
    CHECK_THAT(report.refused[0], has_text("the previous ones stay in use"));
    CHECK(run(on, {}) == 1);
    CHECK(run(on, {.seqlen = 7}) == 1);
    CHECK(on.catalog.generation() == generation);
    driver->loads_that_fail = 0;
  }
  SECTION("since the blob comes after its manifest") {
    json later = stamp_variant("one", 1);
    later["launches"][0]["blob"] = "later.so";
    later["launches"][0]["sha256"] = disk::hash_of(disk::built("stamp_other.so"));
    files.put_manifest("stamp", {later});
    CHECK(on.catalog.reload().refused.size() == 1);
    CHECK(run(on, {}) == 1);
    files.put_blob("stamp", "stamp_other.so", "later.so");
  }
  CHECK(on.catalog.reload().refused.empty());
  CHECK(run(on, {}) == 1001);
  CHECK(on.catalog.generation() != generation);
}
