// SPDX-License-Identifier: MIT
// What launches cost in memory: nothing when warm, and a bounded amount however many problems there are.
#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <unistd.h>

#include "allocation_counter.hpp"
#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

std::int64_t resident_bytes() {
  std::ifstream in{"/proc/self/statm"};
  std::int64_t total = 0;
  std::int64_t resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("a warm launch allocates nothing") {
  const disk files{"nothing", {nothing_variant("sixteen")}};
  files.put_manifest("stamp", {stamp_variant("one", 1)});
  files.put_manifest("row_sum", {split_sum_variant(64)});
  sy::catalog catalog{files.options()};
  const sy::device device{std::make_shared<sy::host::driver>(1)};
  sy::dispatcher<nothing> sixteen{catalog, device};
  sy::dispatcher<stamp> stamped{catalog, device};
  sy::dispatcher<row_sum> summed{catalog, device};
  const std::array<float, 64> x{};
  double sum = 0;
  std::int32_t number = 0;
  alignas(256) std::array<std::byte, 256> memory{};
  const auto launch_all = [&] {
    sixteen(nullptr, {.e = 1, .f = 2, .g = 3, .h = 4});
    stamped(nullptr, {.out = &number, .seqlen = 9});
    summed(nullptr, {.x = x.data(), .out = &sum, .n = 64}, {memory.data(), memory.size()});
  };
  launch_all();
  const std::uint64_t before = allocations_of_this_thread();
  for (int i = 0; i < 100; ++i) launch_all();
  CHECK(allocations_of_this_thread() == before);
  CHECK(number == 1);
}

TEST_CASE("expressions of one value take no allocation") {
  const std::uint64_t before = allocations_of_this_thread();
  const sy::expression seven{7};
  const sy::expression none;
  const sy::expression copy = seven;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  CHECK(allocations_of_this_thread() == before);
  CHECK(copy.evaluate({}).value == 7);
  CHECK(copy == seven);
  CHECK(none == sy::expression{0});
}

TEST_CASE("a new problem takes two allocations, also where its plan displaces another one") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  sy::catalog_options options = files.options();
  options.plan_capacity = 64;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device{std::make_shared<sy::host::driver>(1)}};
  std::int64_t seqlen = 0;
  for (int i = 0; i < 200; ++i) REQUIRE(run(on, {.seqlen = ++seqlen}) == 1);
  std::int32_t number = 0;
  const std::uint64_t before = allocations_of_this_thread();
  for (int i = 0; i < 600; ++i) on(nullptr, {.out = &number, .seqlen = ++seqlen});
  CHECK(allocations_of_this_thread() - before <= 1200);
}

TEST_CASE("a decode loop of 100,000 new problems keeps a bounded number of plans") {
  const disk files;
  json late = stamp_variant("late", 1);
  late["launches"][0]["parameters"][1] = {{"i32", "number + 0 * blocks"}};
  files.put_manifest("stamp", {stamp_variant("one", 1), late});
  files.put_table("stamp", {stamp_group({row(1, 128, {{"one", 1.0}, {"late", 2.0}}),
                                         row(1, 50000, {{"one", 2.0}, {"late", 1.0}})})});
  disk_dispatcher<stamp> on{files, sy::device{std::make_shared<sy::host::driver>(1)}};
  std::int64_t steady = 0;
  std::int64_t resident = 0;
  std::int64_t most = 0;
  for (std::int64_t step = 1; step <= 100'000; ++step) {
    REQUIRE(run(on, {.seqlen = step}) == 1);
    if (step == 20'000) {
      steady = live_bytes();
      resident = resident_bytes();
    }
    if (step > 20'000 && step % 100 == 0) most = std::max(most, live_bytes());
  }
  INFO("live: " << steady << " bytes at step 20,000, at most " << most << " later");
  CHECK(most < steady + 400'000);  // what waits to be freed comes and goes
  // A sanitizer keeps freed memory for a while.
  if (steady > 0) CHECK(resident_bytes() < resident + 4'000'000);
}

TEST_CASE("a cache of a few plans serves any number of problems, in any order") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  files.put_table(
      "stamp",
      {stamp_group({row(1, 10, {{"one", 1.0}, {"two", 2.0}}), row(1, 1000, {{"one", 2.0}, {"two", 1.0}})})});
  sy::catalog_options options = files.options();
  options.plan_capacity = 1;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  for (int round = 0; round < 50; ++round) {
    for (const std::int64_t seqlen : {10, 1000, 20, 900, 5, 1500, 12, 800}) {
      REQUIRE(run(on, {.seqlen = seqlen}) == (seqlen < 100 ? 1 : 2));
    }
  }
}
