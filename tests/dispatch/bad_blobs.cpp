// SPDX-License-Identifier: MIT
// Blobs that cannot be used: each costs its variant only, with one warning that says what to do.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
struct fault_case {
  const char* name;
  std::function<void(const disk&, json& variant)> cause;
  int code;
  std::vector<std::string> message;
};

void spoil(const disk& files, json& variant, const std::string& bytes) {
  files.write(files.kernels("stamp") / "bad.so", bytes);
  variant["launches"][0]["blob"] = "bad.so";
}

const std::vector<fault_case>& faults() {
  static const std::vector<fault_case> all{
      {"missing",
       [](const disk&, json& variant) {
         variant["launches"][0]["blob"] = "bad.so";
         variant["launches"][0]["sha256"] = std::string(64, '0');
       },
       205,
       {"bad.so", "cannot be opened", "install it beside its manifest"}},
      {"hash differs",
       [](const disk& files, json& variant) {
         spoil(files, variant, read_text(disk::built("stamp.so")) + "x");
         variant["launches"][0]["sha256"] = disk::hash_of(disk::built("stamp.so"));
       },
       206,
       {"bad.so", "the manifest pins", "install it again"}},
      {"is a folder",
       [](const disk& files, json& variant) {
         std::filesystem::create_directories(files.kernels("stamp") / "bad.so");
         variant["launches"][0]["blob"] = "bad.so";
         variant["launches"][0]["sha256"] = std::string(64, '0');
       },
       205,
       {"bad.so", "not a regular file"}},
      {"not a shared object",
       [](const disk& files, json& variant) { spoil(files, variant, "no ELF at all"); },
       207,
       {"bad.so", "cannot be loaded"}},
      {"empty", [](const disk& files, json& variant) { spoil(files, variant, ""); }, 207, {"bad.so"}},
      {"cut off",
       [](const disk& files, json& variant) {
         spoil(files, variant, read_text(disk::built("stamp.so")).substr(0, 2000));
       },
       207,
       {"bad.so", "cannot be loaded"}},
      {"symbol unresolved",
       [](const disk& files, json& variant) {
         spoil(files, variant, read_text(disk::built("unresolved.so")));
       },
       207,
       {"bad.so", "switchyard_function_that_nobody_has"}},
      {"later version",
       [](const disk& files, json& variant) { spoil(files, variant, read_text(disk::built("future.so"))); },
       207,
       {"'stamp'", "version 2", "runs version 1"}},
      {"kernel absent",
       [](const disk&, json& variant) { variant["launches"][0]["kernel"] = "stomp"; },
       208,
       {"'stomp'", "stamp.so", "build blob and manifest together", "extern \"C\"",
        "visibility(\"default\")"}},
      {"too few parameters",
       [](const disk&, json& variant) { variant["launches"][0]["parameters"] = {"out"}; },
       209,
       {"kernel 'stamp'", "1 parameters", "takes 2", "out (8 bytes)"}},
      {"too many parameters",
       [](const disk&, json& variant) { variant["launches"][0]["parameters"].push_back("batch"); },
       209,
       {"3 parameters", "takes 2"}},
      {"a parameter's size",
       [](const disk&, json& variant) {
         variant["launches"][0]["parameters"][1] = {{"i64", "number"}};
       },
       209,
       {"parameter 1", "{\"i64\":\"number\"}", "8 bytes in the manifest", "4 in the kernel"}},
  };
  return all;
}

}  // namespace

TEST_CASE("a variant whose blob cannot be used gives way to the next, with one warning") {
  for (const fault_case& fault : faults()) {
    DYNAMIC_SECTION(fault.name) {
      const disk files;
      json broken = stamp_variant("broken", 1);
      fault.cause(files, broken);
      files.put_manifest("stamp", {broken, stamp_variant("sound", 2)});
      files.put_table("stamp", {stamp_group({row(1, 1, {{"broken", 1.0}, {"sound", 2.0}})})});
      disk_dispatcher<stamp> on{files, fresh_host()};
      CHECK(on.explain({}).variant == "broken");
      const std::uint64_t before = on.catalog.generation();
      for (int i = 1; i < 4; ++i) CHECK(run(on, {.seqlen = i}) == 2);
      CHECK(on.explain({}).variant == "sound");
      CHECK(on.catalog.generation() != before);
      CHECK_THAT(on.explain({}).candidates.at(0).obstacle, has_text("could not be loaded"));
      const std::string log = files.log();
      INFO(log);
      CHECK(count_of(log, "warning") == 1);
      CHECK_THAT(log, has_text("[switchyard." + std::to_string(fault.code) + "]") &&
                          has_text("variant 'broken' of stamp is out of service"));
      for (const std::string& piece : fault.message) CHECK_THAT(log, has_text(piece));
    }
  }
}

TEST_CASE("when nothing is left, the call is an error that says so") {
  for (const fault_case& fault : faults()) {
    DYNAMIC_SECTION(fault.name) {
      const disk files;
      json broken = stamp_variant("broken", 1);
      fault.cause(files, broken);
      files.put_manifest("stamp", {broken, stamp_variant("half", 3, {{"dtype", "f16"}})});
      disk_dispatcher<stamp> on{files, fresh_host()};
      for (int i = 0; i < 2; ++i) {
        const auto problem = sy::test::error_of<sy::call_error>([&] { return run(on, {}); });
        CHECK(problem.code() == sy::error_code::no_variant);
        CHECK_THAT(problem.what(), has_text("broken (could not be loaded; see the warning)"));
      }
      CHECK(count_of(files.log(), "warning") == 1);
      CHECK(run(on, {.dtype = sy::dtype::f16}) == 3);
    }
  }
}

TEST_CASE("threads that meet the same broken blob at once warn once") {
  const disk files;
  json broken = stamp_variant("broken", 1);
  spoil(files, broken, "no ELF at all");
  files.put_manifest("stamp", {broken, stamp_variant("sound", 2)});
  disk_dispatcher<stamp> on{files, fresh_host()};
  std::atomic<int> right{0};
  sy::test::run_threads(8, [&](int t) {
    for (int i = 1; i <= 20; ++i) {
      if (run(on, {.batch = t % 2 + 1, .seqlen = i}) == 2) ++right;
    }
  });
  CHECK(right == 160);
  CHECK(count_of(files.log(), "warning") == 1);
}

TEST_CASE("blobs of one name in two folders are two blobs") {
  const disk first;
  const disk second;
  first.put_manifest("stamp", {stamp_variant("one", 1)});
  second.put_blob("stamp", "stamp_other.so", "stamp.so");
  second.put_manifest("stamp", {stamp_variant("two", 2, {{"dtype", "f16"}})});
  sy::catalog_options options = first.options();
  options.roots.push_back(second.root().string());
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 1);
  CHECK(run(on, {.dtype = sy::dtype::f16}) == 1002);
  CHECK(run(on, {}) == 1);
}
