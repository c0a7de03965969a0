// SPDX-License-Identifier: MIT
// Blobs that are missing or half copied when a program starts, and come later: a reload and a watching
// catalog notice, and the variants serve.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

/// Copies the first `bytes` of a blob in place, as `cp` does: no other file is renamed over it.
void copy_part(const disk& files, const std::string& built_name, const std::string& name, std::size_t bytes) {
  std::ofstream{files.kernels("stamp") / name, std::ios::binary}
      << read_text(disk::built(built_name)).substr(0, bytes);
}

[[nodiscard]] json late_variant() {
  json late = stamp_variant_in("late.so", "late", 1);
  late["launches"][0]["sha256"] = disk::hash_of(disk::built("stamp_other.so"));
  return late;
}

/// How a program learns of a blob: it asks, or its catalog watches.
struct way_to_notice {
  const char* name;
  std::function<void(sy::catalog&)> begin;
  std::function<void(sy::catalog&, const std::function<bool()>& is_there)> wait;
};

const std::vector<way_to_notice>& ways() {
  static const std::vector<way_to_notice> all{
      {"by reload()", [](sy::catalog&) {},
       [](sy::catalog& catalog, const std::function<bool()>&) {
         CHECK(catalog.reload().changed.size() == 1);
       }},
      {"by watch()", [](sy::catalog& catalog) { catalog.watch(std::chrono::milliseconds{10}); },
       [](sy::catalog& catalog, const std::function<bool()>& is_there) {
         for (int i = 0; i < 1000 && !is_there(); ++i)
           std::this_thread::sleep_for(std::chrono::milliseconds{10});
         catalog.stop_watching();
       }},
  };
  return all;
}

[[nodiscard]] bool serves(sy::dispatcher<stamp>& on, int number) {
  try {
    return run(on, {}) == number;
  } catch (const sy::error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a variant whose blob comes late serves from then on") {
  for (const way_to_notice& way : ways()) {
    for (const std::size_t at_start : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
      for (const bool has_other : {false, true}) {
        DYNAMIC_SECTION(way.name << " with " << at_start << " bytes at start"
                                 << (has_other ? ", beside another" : "")) {
          const disk files;
          if (at_start > 0) {
            std::filesystem::create_directories(files.kernels("stamp"));
            copy_part(files, "stamp_other.so", "late.so", at_start);
          }
          if (has_other) {
            files.put_manifest("stamp", {late_variant(), stamp_variant("other", 2)});
          } else {
            files.put_manifest("stamp", {late_variant()});
          }
          disk_dispatcher<stamp> on{files, fresh_host()};
          if (has_other) {
            CHECK(run(on, {}) == 2);
          } else {
            CHECK_THROWS_WITH(run(on, {}), has_text("[switchyard.302]"));
          }
          way.begin(on.catalog);
          const std::uint64_t before = on.catalog.generation();
          copy_part(files, "stamp_other.so", "late.so", SIZE_MAX);
          way.wait(on.catalog, [&] { return serves(on, 1001); });
          CHECK(run(on, {}) == 1001);
          CHECK(on.catalog.generation() != before);
          CHECK(on.catalog.reload().changed.empty());
        }
      }
    }
  }
}

TEST_CASE("a blob that grows is not taken before it is whole, and nothing is warned of again") {
  const disk files;
  std::filesystem::create_directories(files.kernels("stamp"));
  files.put_manifest("stamp", {late_variant(), stamp_variant("other", 2)});
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 2);
  const std::uint64_t before = on.catalog.generation();
  for (std::size_t bytes = 0; bytes < 6; ++bytes) {
    copy_part(files, "stamp_other.so", "late.so", bytes * 1000);
    CHECK(on.catalog.reload().changed.empty());
    CHECK(run(on, {}) == 2);
  }
  CHECK(on.catalog.generation() == before);
  CHECK(count_of(files.log(), "warning") == 1);
  copy_part(files, "stamp_other.so", "late.so", SIZE_MAX);
  CHECK(on.catalog.reload().changed ==
        std::vector<std::string>{(files.kernels("stamp") / "late.so").string()});
  CHECK(run(on, {}) == 1001);
}

TEST_CASE("a variant of two blobs serves once both are there") {
  const disk files;
  std::filesystem::create_directories(files.kernels("stamp"));
  json both = late_variant();
  json second = both["launches"][0];
  second["blob"] = "second.so";
  both["launches"].push_back(second);
  files.put_manifest("stamp", {both, stamp_variant("other", 2)});
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 2);
  const auto whole = read_text(disk::built("stamp_other.so"));
  files.write(files.kernels("stamp") / "late.so", whole);
  CHECK(on.catalog.reload().changed.empty());
  CHECK(run(on, {}) == 2);
  files.write(files.kernels("stamp") / "second.so", whole);
  CHECK(on.catalog.reload().changed ==
        std::vector<std::string>{(files.kernels("stamp") / "second.so").string()});
  CHECK(run(on, {}) == 1001);
}

TEST_CASE("a blob that comes after its manifest is taken at the next look of a watching catalog") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 1);
  files.put_manifest("stamp", {late_variant()});
  for (int i = 0; i < 6; ++i)
    CHECK(on.catalog.reload().refused.size() == 1);  // the next try is due in a minute
  CHECK(run(on, {}) == 1);
  files.put_blob("stamp", "stamp_other.so", "late.so");
  on.catalog.watch(std::chrono::milliseconds{10});
  for (int i = 0; i < 500 && !serves(on, 1001); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  CHECK(run(on, {}) == 1001);
}

TEST_CASE("each dispatcher of a variant is given its blob, and a blob that cannot be read is read again") {
  const disk files{"stamp", {late_variant(), stamp_variant("other", 2)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  sy::dispatcher<stamp> on_another{on.catalog, fresh_host()};
  CHECK(run(on, {}) == 2);
  CHECK(run(on_another, {}) == 2);
  files.put_blob("stamp", "stamp_other.so", "late.so");
  {
    const auto blob = files.kernels("stamp") / "late.so";
    std::filesystem::permissions(blob, std::filesystem::perms::none);
    if (!std::ifstream{blob}) {  // not as root
      CHECK(on.catalog.reload().changed.empty());
      CHECK(run(on, {}) == 2);
    }
    std::filesystem::permissions(blob, std::filesystem::perms::owner_read);
  }
  CHECK(on.catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1001);
  CHECK(run(on_another, {}) == 1001);
}
