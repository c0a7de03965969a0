// SPDX-License-Identifier: MIT
// Files that change under a running catalog.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;
void prefer(const disk& files, const char* fast, const char* slow) {
  files.put_table("stamp", {stamp_group({row(1, 1, {{fast, 1.0}, {slow, 2.0}})})});
}

}  // namespace

TEST_CASE("a changed table changes the next call's choice") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  prefer(files, "one", "two");
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {}) == 1);
  CHECK(on.catalog.reload().changed.empty());
  prefer(files, "two", "one");
  CHECK(run(on, {}) == 1);
  const auto report = on.catalog.reload();
  CHECK(report.changed == std::vector<std::string>{files.table_path("stamp").string()});
  CHECK(report.refused.empty());
  CHECK(run(on, {}) == 2);
  std::filesystem::remove(files.table_path("stamp"));
  CHECK(on.catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1);  // the manifest's order
  CHECK(on.explain({}).chosen.why == sy::reason::heuristic);
}

TEST_CASE("a table written half-way leaves the old one serving, and says why") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  prefer(files, "two", "one");
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {}) == 2);
  const std::string whole = read_text(files.table_path("stamp"));
  for (const std::size_t length : {std::size_t{0}, whole.size() / 2, whole.size() - 3}) {
    files.write(files.table_path("stamp"), whole.substr(0, length));
    const auto report = on.catalog.reload();
    CHECK(report.changed.empty());
    REQUIRE(report.refused.size() == 1);
    CHECK_THAT(report.refused[0], has_text("[switchyard.103]") && has_text("here.json"));
    CHECK_THAT(files.log(), has_text("keeping the previously loaded version"));
    CHECK(run(on, {}) == 2);
    CHECK(on.catalog.reload().refused.empty());  // said once
  }
  prefer(files, "one", "two");
  CHECK(on.catalog.reload().refused.empty());
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a changed manifest changes what there is to choose from") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  prefer(files, "two", "one");
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {}) == 1);
  CHECK(count_of(files.log(), "[switchyard.110]") == 1);  // the table names a variant that is not there
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 2);
  files.put_manifest("stamp", {stamp_variant("one", 1)});
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 1);
  files.write(files.manifest_path("stamp"), "not JSON");
  CHECK(on.catalog.reload().refused.size() == 1);
  CHECK(run(on, {}) == 1);
  files.put_manifest("stamp", {stamp_variant("two", 2)});
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 2);
}

TEST_CASE("new files and new folders are found") {
  const disk files;
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK_THROWS_AS(run(on, {}), sy::call_error);
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 1);
  prefer(files, "two", "one");
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 2);
}

TEST_CASE("an overlay file that is named comes and goes") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  const auto overlay = files.root() / "overlay.json";
  sy::catalog_options options = files.options();
  options.tables = {overlay.string()};
  const std::string text =
      json{{"schema", "switchyard.table/1"}, {"operator", "stamp"}, {"deny", {{{"variant", "one"}}}}}.dump();
  files.write(overlay, text);
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device::host()};
  CHECK(run(on, {}) == 2);
  std::filesystem::remove(overlay);
  CHECK(catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1);
  files.write(overlay, text);
  (void)catalog.reload();
  CHECK(run(on, {}) == 2);
}

TEST_CASE("a blob that is replaced together with its manifest runs from then on") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run(on, {}) == 1);
  for (int round = 0; round < 3; ++round) {
    files.put_blob("stamp", "stamp_other.so", "stamp.so");
    CHECK(run(on, {}) == 1);
    CHECK(run(on, {.seqlen = 2 + round}) == 1);  // a new problem, but what is loaded stays loaded
    files.put_manifest("stamp", {stamp_variant("one", 1)});
    (void)on.catalog.reload();
    CHECK(run(on, {}) == 1001);
    files.put_blob("stamp", "stamp.so", "stamp.so");
    files.put_manifest("stamp", {stamp_variant("one", 1)});
    (void)on.catalog.reload();
    CHECK(run(on, {}) == 1);
  }
  CHECK(files.log().empty());
  CHECK(driver->loads == 2);  // each content once, however often it comes back
  CHECK(driver->unloads == 0);
}

TEST_CASE("watch() takes changes up by itself, until it is stopped") {
  using namespace std::chrono_literals;
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  prefer(files, "one", "two");
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK(run(on, {}) == 1);
  on.catalog.watch(5ms);
  const auto becomes = [&](int wanted) {
    for (int i = 0; i < 2000; ++i) {
      if (run(on, {}) == wanted) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  };
  prefer(files, "two", "one");
  CHECK(becomes(2));
  prefer(files, "one", "two");
  CHECK(becomes(1));
  on.catalog.watch(10ms);  // again, at another interval
  prefer(files, "two", "one");
  CHECK(becomes(2));
  on.catalog.stop_watching();
  prefer(files, "one", "two");
  std::this_thread::sleep_for(100ms);
  CHECK(run(on, {}) == 2);
}

TEST_CASE("kernels stay loaded until they are given back; replaced files are freed at once") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog catalog{files.options()};
  std::weak_ptr<const sy::manifest> old_manifest;
  {
    sy::dispatcher<stamp> on{catalog, sy::device{driver}};
    CHECK(run(on, {}) == 1);
    old_manifest = catalog.files(sy::describe<stamp>()).manifests.at(0);
    files.put_blob("stamp", "stamp_other.so", "stamp.so");
    files.put_manifest("stamp", {stamp_variant("one", 1)});
    (void)catalog.reload();
    CHECK(run(on, {}) == 1001);
    CHECK(old_manifest.expired());
    CHECK(driver->loads == 2);
    CHECK(driver->unloads == 0);
    CHECK(catalog.unload_unused() == 1);
    CHECK(driver->unloads == 1);
    CHECK(run(on, {}) == 1001);
    CHECK(catalog.unload_unused() == 0);
  }
  CHECK(driver->unloads == 1);
  CHECK(catalog.unload_unused() == 1);
  sy::dispatcher<stamp> again{catalog, sy::device{driver}};
  CHECK(run(again, {}) == 1001);
  CHECK(driver->loads == 3);
}

TEST_CASE("catalogs of one program share what is loaded on a device") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  for (int i = 0; i < 3; ++i) {
    disk_dispatcher<stamp> on{files, sy::device{driver}};
    CHECK(run(on, {}) == 1);
  }
  CHECK(driver->loads == 1);
  CHECK(driver->unloads == 0);
}

TEST_CASE("a snapshot stays while a launch uses it, and goes with a later replacement") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  CHECK(run(on, {}) == 1);
  std::weak_ptr<const sy::manifest> used = on.catalog.files(sy::describe<stamp>()).manifests.at(0);
  driver->holds_next = true;
  int slow = 0;
  std::thread reader{[&] { slow = run(on, {}); }};
  driver->held.wait(false);
  for (int round = 0; round < 4; ++round) {
    files.put_blob("stamp", round % 2 == 0 ? "stamp_other.so" : "stamp.so", "stamp.so");
    files.put_manifest("stamp", {stamp_variant("one", 1)});
    (void)on.catalog.reload();
    CHECK(run(on, {}) == (round % 2 == 0 ? 1001 : 1));
    CHECK(on.catalog.unload_unused() == 0);  // the reader's snapshot refers to one, the newest to the other
  }
  CHECK(slow == 0);
  CHECK_FALSE(used.expired());
  driver->may_go_on = true;
  driver->may_go_on.notify_all();
  reader.join();
  CHECK(slow == 1);
  (void)on.catalog.reload();
  CHECK(used.expired());
  CHECK(on.catalog.unload_unused() == 1);
}

TEST_CASE("dispatchers on several devices have tables, choices and blobs of their own") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  files.write(
      files.root() / "tables/stamp/a.json",
      disk::make_table("stamp", {stamp_group({row(1, 1, {{"one", 1.0}, {"two", 2.0}})})}, "left").dump());
  files.write(
      files.root() / "tables/stamp/b.json",
      disk::make_table("stamp", {stamp_group({row(1, 1, {{"two", 1.0}, {"one", 2.0}})})}, "right").dump());
  const auto left = std::make_shared<faulty_driver>("left");
  const auto right = std::make_shared<faulty_driver>("right");
  disk_dispatcher<stamp> on_left{files, sy::device{left}};
  sy::dispatcher<stamp> on_right{on_left.catalog, sy::device{right}};
  sy::dispatcher<stamp> also_left{on_left.catalog, sy::device{left}};
  for (int i = 0; i < 2; ++i) {
    CHECK(run(on_left, {}) == 1);
    CHECK(run(on_right, {}) == 2);
    CHECK(run(also_left, {}) == 1);
  }
  CHECK(left->launches == 4);
  CHECK(right->launches == 2);
  CHECK(left->loads == 1);
  CHECK(right->loads == 1);
  CHECK(on_right.device_of().properties().name == "right");
  files.write(
      files.root() / "tables/stamp/b.json",
      disk::make_table("stamp", {stamp_group({row(1, 1, {{"one", 1.0}, {"two", 2.0}})})}, "right").dump());
  (void)on_left.catalog.reload();
  CHECK(run(on_right, {}) == 1);
  CHECK(run(on_left, {}) == 1);
}

namespace {

/// For an API that cannot number its devices: each stream is asked about at each call.
class numberless_router final : public sy::stream_router {
 public:
  explicit numberless_router(std::vector<sy::device> devices) : devices_{std::move(devices)} {}
  [[nodiscard]] sy::device of(sy::stream on) override {
    return devices_.at(reinterpret_cast<std::uintptr_t>(on.handle()) % devices_.size());
  }
  [[nodiscard]] std::uintptr_t key(sy::stream /*on*/) noexcept override { return 0; }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return false; }

 private:
  std::vector<sy::device> devices_;
};

}  // namespace

TEST_CASE("devices that have no number are served for any number of calls, each by one dispatcher's core") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const auto left = std::make_shared<faulty_driver>("left");
  const auto right = std::make_shared<faulty_driver>("right");
  sy::catalog_options options = files.options();
  options.streams =
      std::make_shared<numberless_router>(std::vector<sy::device>{sy::device{left}, sy::device{right}});
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog};
  for (std::uintptr_t i = 0; i < 600; ++i) {  // more than a dispatcher has routes
    std::int32_t out = -1;
    stamp::arguments call;
    call.out = &out;
    on(reinterpret_cast<void*>(16 + i % 2), call);
    REQUIRE(out == 1);
  }
  CHECK(left->launches == 300);
  CHECK(right->launches == 300);
  CHECK(left->loads == 1);
  CHECK(right->loads == 1);
}
