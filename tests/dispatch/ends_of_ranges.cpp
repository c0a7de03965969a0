// SPDX-License-Identifier: MIT
// What prepare() loads for rows that lie at the ends of its ranges, and which launches a driver is told of.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

/// A variant in a blob of its own.
json own_blob(const disk& files, int number) {
  const std::string blob = "stamp" + std::to_string(number) + ".so";
  files.write(files.kernels("stamp") / blob, read_text(disk::built("stamp.so")) + std::string(8, 'x') + blob);
  json out = stamp_variant("v" + std::to_string(number), number);
  out["launches"][0]["blob"] = blob;
  return out;
}

}  // namespace

TEST_CASE("prepare loads what only a row at an end of its ranges needs, and nothing beyond") {
  constexpr std::int64_t low = 7;
  constexpr std::int64_t high = 1 << 20;
  constexpr std::int64_t between = 77'777;  // no value that a sample of the range has
  const disk files;
  std::vector<json> variants;
  std::vector<json> rows;
  for (int i = 0; i <= 8; ++i) variants.push_back(own_blob(files, i));
  files.put_manifest("stamp", variants);
  const auto fastest = [&](std::int64_t batch, std::int64_t seqlen, int number) {
    rows.push_back(row(batch, seqlen, {{"v" + std::to_string(number), 1.0}}));
  };
  fastest(between, low, 1);
  fastest(between, high, 2);
  fastest(low, between, 3);
  fastest(high, between, 4);
  fastest(between, low - 1, 5);
  fastest(between, high + 1, 6);
  fastest(low - 1, between, 7);
  fastest(high + 1, between, 8);
  json table = disk::make_table("stamp", {stamp_group(rows)});
  table["match"] = {{"batch", "exact"}, {"seqlen", "exact"}};  // a row decides its own sizes alone
  files.write(files.table_path("stamp"), table.dump());

  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({}, {{"batch", low, high}, {"seqlen", low, high}});
  CHECK(driver->loads == 5);
  CHECK(run(on, {.batch = between, .seqlen = low}) == 1);
  CHECK(run(on, {.batch = between, .seqlen = high}) == 2);
  CHECK(run(on, {.batch = low, .seqlen = between}) == 3);
  CHECK(run(on, {.batch = high, .seqlen = between}) == 4);
  CHECK(run(on, {.batch = low, .seqlen = high}) == 0);
  CHECK(driver->loads == 5);
  CHECK(run(on, {.batch = between, .seqlen = low - 1}) == 5);
  CHECK(driver->loads == 6);
}

TEST_CASE("a range of one size is a range, and one that is tried whole has every size") {
  const disk files;
  std::vector<json> variants;
  for (int i = 0; i <= 3; ++i) variants.push_back(own_blob(files, i));
  files.put_manifest("stamp", variants);
  json table = disk::make_table(
      "stamp", {stamp_group({row(1, 5, {{"v1", 1.0}}), row(1, 6, {{"v2", 1.0}}), row(1, 7, {{"v3", 1.0}})})});
  table["match"] = {{"seqlen", "exact"}};
  files.write(files.table_path("stamp"), table.dump());
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  on.prepare({}, {{"seqlen", 6, 6}});
  CHECK(driver->loads == 1);
  on.prepare({}, {{"seqlen", 5, 6}});
  CHECK(driver->loads == 2);
  on.prepare({}, {{"seqlen", 0, 7}});
  CHECK(driver->loads == 4);
}

TEST_CASE("a driver is told of a launch with another cluster, or more shared memory, and of no other") {
  const disk files;
  json variant = stamp_variant("only", 1);
  variant["launches"][0]["cluster"] = {"batch", 1, 1};
  variant["launches"][0]["shared_bytes"] = "seqlen";
  files.put_manifest("stamp", {variant});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  const auto told = [&](std::int64_t batch, std::int64_t seqlen) {
    const int before = driver->configurations;
    CHECK(run(on, {.batch = batch, .seqlen = seqlen}) == 1);
    return driver->configurations - before;
  };
  CHECK(told(1, 0) == 0);   // neither
  CHECK(told(2, 0) == 1);   // a cluster alone
  CHECK(told(4, 0) == 1);   // another one alone
  CHECK(told(4, 64) == 1);  // shared memory alone
  CHECK(told(4, 32) == 0);  // less of it
  CHECK(told(4, 65) == 1);
  CHECK(told(2, 65) == 1);

  sy::dispatcher<stamp> another{on.catalog, sy::device{driver}};
  const int before = driver->configurations;
  CHECK(run(another, {.batch = 1, .seqlen = 8}) == 1);  // shared memory, and no cluster
  CHECK(driver->configurations == before + 1);
}
