// SPDX-License-Identifier: MIT
// A program's own allocator for workspaces, and ranges around calls.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <string>

#include <switchyard/observing/open_ranges.hpp>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

/// An allocator that keeps books.
struct books {
  std::atomic<int> allocations{0};
  std::atomic<int> releases{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> is_empty{false};
  std::atomic<std::size_t> offset{0};  // of what it gives
  std::string backend;
  void* seen_stream = nullptr;

  [[nodiscard]] sy::memory_hooks hooks() {
    return {[](void* mine, std::size_t wanted, const sy::device_properties& device,
               sy::stream on) noexcept -> void* {
              auto& to = *static_cast<books*>(mine);
              if (to.is_empty) return nullptr;
              if (to.allocations++ == 0) {
                to.backend = device.backend;
                to.seen_stream = on.handle();
              }
              to.bytes += wanted;
              return static_cast<std::byte*>(std::aligned_alloc(256, (wanted + 511) / 256 * 256)) + to.offset;
            },
            [](void* mine, void* address, const sy::device_properties&, sy::stream) noexcept {
              auto& to = *static_cast<books*>(mine);
              ++to.releases;
              std::free(static_cast<std::byte*>(address) - to.offset);
            },
            this};
  }
};

struct hooked_engine {
  disk files;
  books kept;
  std::shared_ptr<faulty_driver> driver = std::make_shared<faulty_driver>();
  std::unique_ptr<sy::catalog> catalog;
  std::unique_ptr<sy::dispatcher<row_sum>> on;
  std::array<float, 64> x{};
  double out = 0;

  explicit hooked_engine(std::int64_t bytes = 64) {
    files.put_manifest("row_sum", {split_sum_variant(bytes)});
    sy::catalog_options options = files.options();
    options.memory = kept.hooks();
    catalog = std::make_unique<sy::catalog>(std::move(options));
    on = std::make_unique<sy::dispatcher<row_sum>>(*catalog, sy::device{driver});
    x.fill(1);
  }
  void call(std::int64_t n, sy::workspace given = {}) { (*on)(nullptr, {x.data(), &out, n}, given); }
};

}  // namespace

TEST_CASE("workspaces come from the program's allocator, and go back to it") {
  hooked_engine engine;
  for (const std::int64_t n : {64, 64, 32}) {
    engine.call(n);
    CHECK(engine.out == static_cast<double>(n));
  }
  CHECK(engine.kept.allocations == 3);
  CHECK(engine.kept.releases == 3);
  CHECK(engine.kept.bytes == 3 * 256);
  CHECK(engine.kept.backend == "host");
  CHECK(engine.driver->allocations == 0);
  CHECK(engine.driver->releases == 0);

  alignas(256) std::array<std::byte, 256> own{};
  engine.call(64, {own.data(), own.size()});
  CHECK(engine.kept.allocations == 3);
}

TEST_CASE("an allocator that has nothing, or gives what is not aligned, is an error of the call") {
  hooked_engine engine;
  engine.kept.is_empty = true;
  CHECK_THROWS_WITH(engine.call(64), has_text("[switchyard.210] row_sum: the device has no 256 bytes"));
  CHECK(engine.kept.releases == 0);
  engine.kept.is_empty = false;
  engine.kept.offset = 64;
  CHECK_THROWS_WITH(engine.call(64),
                    has_text("[switchyard.301]") &&
                        has_text("catalog_options::memory gave an address that is not aligned to 256"));
  CHECK(engine.kept.allocations == 1);
  CHECK(engine.kept.releases == 1);
  engine.kept.offset = 0;
  engine.call(64);
  CHECK(engine.out == 64);
}

TEST_CASE("what was allocated goes back when a launch fails") {
  hooked_engine engine;
  engine.driver->launch_status = 7;
  CHECK_THROWS_AS(engine.call(64), sy::driver_error);
  CHECK(engine.kept.allocations == 1);
  CHECK(engine.kept.releases == 1);
}

TEST_CASE("threads use the program's allocator at the same time") {
  hooked_engine engine;
  std::atomic<int> wrong{0};
  sy::test::run_threads(4, [&engine, &wrong](int) {
    for (int i = 1; i <= 50; ++i) {
      double out = 0;
      (*engine.on)(nullptr, {engine.x.data(), &out, i});
      if (out != i) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(engine.kept.allocations == 200);
  CHECK(engine.kept.releases == 200);
}

namespace {

/// The ranges of a test, as "(name" and ")".
struct range_record {
  std::mutex mutex;
  std::string text;

  [[nodiscard]] sy::range_hooks hooks() {
    return {[](void* mine, const char* name) noexcept {
              auto& to = *static_cast<range_record*>(mine);
              const std::scoped_lock lock{to.mutex};
              to.text.append("(").append(name);
            },
            [](void* mine) noexcept {
              auto& to = *static_cast<range_record*>(mine);
              const std::scoped_lock lock{to.mutex};
              to.text.append(")");
            },
            this};
  }
  [[nodiscard]] std::string take() { return std::exchange(text, {}); }
};

}  // namespace

TEST_CASE("ranges are named by operator and variant, and around the launch") {
  const disk files;
  range_record seen;
  files.put_manifest("stamp", {stamp_variant("one", 1)});
  files.put_manifest("row_sum", {split_sum_variant(64)});
  sy::catalog_options options = files.options();
  options.ranges = seen.hooks();
  sy::catalog catalog{std::move(options)};
  const auto driver = std::make_shared<faulty_driver>();
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  CHECK(seen.take().empty());
  CHECK(run(on, {}) == 1);
  CHECK(seen.take() == "(stamp: plan)(stamp one)");
  CHECK(run(on, {}) == 1);
  CHECK(seen.take() == "(stamp one)");

  sy::dispatcher<row_sum> sum{catalog, sy::device{driver}};
  const std::array<float, 8> x{1, 1, 1, 1, 1, 1, 1, 1};
  double out = 0;
  const row_sum::arguments call{x.data(), &out, 8};
  sum.prepare(call);
  CHECK(seen.take() == "(row_sum: plan)");
  sum(nullptr, call);
  CHECK(out == 8);
  CHECK(seen.take() == "(row_sum split)");

  driver->launch_status = 7;
  CHECK_THROWS_AS(sum(nullptr, call), sy::driver_error);
  CHECK(seen.take() == "(row_sum split)");  // it ends with the error
  CHECK_THROWS_AS(run(on, {.dtype = sy::dtype::bf16}), sy::call_error);
  CHECK(seen.take() == "(stamp: plan)");
}

TEST_CASE("a library of ranges that is not there is a warning, and calls run without") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  sy::catalog_options options = files.options();
  options.settings.ranges = "libswitchyard_no_such_ranges.so";
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 1);
  CHECK_THAT(files.log(),
             has_text("SWITCHYARD_RANGES: [switchyard.201] no profiler's library of ranges can be "
                      "used (tried libswitchyard_no_such_ranges.so)"));
}

TEST_CASE("a profiler's library is opened by its name, and told of calls") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  const std::string library = disk::built("ranges.so").string();
  sy::catalog_options options = files.options();
  options.settings.ranges = library;
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 1);
  CHECK(run(on, {}) == 1);
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(opened != nullptr);
  const auto text = reinterpret_cast<const char* (*)()>(::dlsym(opened, "ranges_text"));
  REQUIRE(text != nullptr);
  CHECK(std::string{text()} == "(stamp: plan)(stamp one)(stamp one)");
  CHECK(files.log().empty());
  CHECK_THROWS_WITH(sy::open_ranges(disk::built("stamp.so").string()),
                    has_text("[switchyard.201]"));  // no ranges
}
