// SPDX-License-Identifier: MIT
// When a decode step runs plainly, is captured, and is replayed: over an API that only keeps count.
#include "step_graphs.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "run_model.hpp"
#include "tests/catch.hpp"

namespace sy = switchyard;
using switchyard::test::scratch_folder;

namespace {

/// What the API was asked for. Graphs are numbers.
struct {
  std::uintptr_t graphs = 0;
  std::uintptr_t executables = 0;
  int destroyed = 0;
  bool is_capturing = false;
  std::vector<std::uintptr_t> launched;
} seen;

[[nodiscard]] std::shared_ptr<const llm::device_api> counting_api() {
  seen = {};
  auto out = std::make_shared<llm::device_api>(sy::device::host());
  out->begin_capture = [](void*, int) {
    seen.is_capturing = true;
    return 0;
  };
  out->end_capture = [](void*, void** graph) {
    seen.is_capturing = false;
    *graph = reinterpret_cast<void*>(++seen.graphs);
    return 0;
  };
  out->graph_instantiate = [](void** executable, void*, unsigned long long) {
    *executable = reinterpret_cast<void*>(++seen.executables);
    return 0;
  };
  out->graph_launch = [](void* executable, void*) {
    seen.launched.push_back(reinterpret_cast<std::uintptr_t>(executable));
    return 0;
  };
  out->executable_destroy = [](void*) {
    ++seen.destroyed;
    return 0;
  };
  out->graph_destroy = [](void*) {
    --seen.graphs;
    return 0;
  };
  return out;
}

}  // namespace

TEST_CASE("a step runs plainly, is captured, and is replayed", "[graphs]") {
  const sy::catalog catalog;
  int plain = 0;
  int captured = 0;
  const auto work = [&] { ++(seen.is_capturing ? captured : plain); };
  {
    llm::step_graphs graphs{catalog, counting_api()};
    for (int i = 0; i < 4; ++i) graphs.run({1, 1, 64, 8}, {}, work);
    CHECK(plain == 1);
    CHECK(captured == 1);
    CHECK(seen.launched == std::vector<std::uintptr_t>{1, 1, 1});
    for (int i = 0; i < 3; ++i) graphs.run({2, 2, 64, 8}, {}, work);
    CHECK(plain == 2);
    CHECK(seen.launched == std::vector<std::uintptr_t>{1, 1, 1, 2, 2});
    graphs.run({1, 1, 64, 8}, {}, work);
    CHECK(seen.launched.back() == 1);
    CHECK(graphs.totals().captures == 2);
    CHECK(graphs.totals().replays == 6);
    CHECK(seen.graphs == 0);  // only what was instantiated is kept

    // The shapes that were used least are given up.
    const auto most = static_cast<std::int64_t>(llm::step_graphs::max_graphs);
    for (std::int64_t i = 0; i < most; ++i) {
      graphs.run({3, 3, 64 * i, 8}, {}, work);
      graphs.run({3, 3, 64 * i, 8}, {}, work);
    }
    CHECK(seen.destroyed == 2);
    const int before = plain;
    graphs.run({1, 1, 64, 8}, {}, work);
    CHECK(plain == before + 1);
  }
  CHECK(seen.destroyed == static_cast<int>(seen.executables));
}

TEST_CASE("without an API every step runs plainly", "[graphs]") {
  const sy::catalog catalog;
  llm::step_graphs graphs{catalog, nullptr};
  int plain = 0;
  for (int i = 0; i < 3; ++i) graphs.run({1, 1, 64, 8}, {}, [&] { ++plain; });
  CHECK(plain == 3);
  CHECK(graphs.totals().captures == 0);
}

TEST_CASE("a step that would have to load in a capture runs plainly", "[graphs]") {
  const sy::catalog catalog;
  llm::step_graphs graphs{catalog, counting_api()};
  int plain = 0;
  bool is_loaded = false;
  const auto work = [&] {
    if (!seen.is_capturing) ++plain;
    if (seen.is_capturing && !is_loaded)
      throw sy::driver_error{sy::error_code::load_during_capture, "a kernel is not loaded"};
  };
  for (int i = 0; i < 3; ++i) graphs.run({1, 1, 64, 8}, {}, work);
  CHECK(plain == 3);
  CHECK_FALSE(seen.is_capturing);
  CHECK(seen.graphs == 0);
  is_loaded = true;
  graphs.run({1, 1, 64, 8}, {}, work);
  CHECK(plain == 3);
  CHECK(graphs.totals().captures == 1);
  // Other errors are the caller's; the capture has ended.
  const auto fails = [] {
    if (seen.is_capturing) throw std::runtime_error{"of the step"};
  };
  graphs.run({2, 1, 64, 8}, {}, fails);
  CHECK_THROWS_WITH(graphs.run({2, 1, 64, 8}, {}, fails), "of the step");
  CHECK_FALSE(seen.is_capturing);
}

TEST_CASE("files that are replaced lead to new captures", "[graphs]") {
  const scratch_folder folder;
  const std::string table = folder.file("overlay.json");
  const auto write =
      [&table](const std::string& denied) {
        std::ofstream{table + ".new"}
            << R"({"schema": "switchyard.table/1", "operator": "softmax", "device": {"backend": "host"}, )"
               R"("groups": [], "deny": [{"variant": ")"
            << denied << R"(", "reason": "a test"}]})";
        std::filesystem::rename(table + ".new", table);
      };
  write("none");
  sy::catalog_options options;
  options.tables = {table};
  sy::catalog catalog{options};
  const sy::dispatcher<sy::operators::softmax> user{catalog, sy::device::host()};
  llm::step_graphs graphs{catalog, counting_api()};
  int plain = 0;
  const auto work = [&] { plain += seen.is_capturing ? 0 : 1; };
  for (int i = 0; i < 3; ++i) graphs.run({1, 1, 64, 8}, {}, work);
  const std::uint64_t generation = catalog.generation();
  write("another");
  catalog.reload();
  REQUIRE(catalog.generation() != generation);
  for (int i = 0; i < 3; ++i) graphs.run({1, 1, 64, 8}, {}, work);
  CHECK(plain == 2);
  CHECK(graphs.totals().captures == 2);
  CHECK(seen.launched == std::vector<std::uintptr_t>{1, 1, 2, 2});
  CHECK(seen.destroyed == 1);
}

TEST_CASE("captured steps are made for at most a quarter more pages", "[graphs]") {
  std::int64_t last = 0;
  int steps = 0;
  for (std::int64_t pages = 1; pages <= 2048; ++pages) {
    const std::int64_t found = llm::captured_pages(pages);
    REQUIRE(found >= pages);
    REQUIRE(4 * found <= 5 * pages + 3);
    REQUIRE(found >= last);
    steps += found != last ? 1 : 0;
    last = found;
  }
  CHECK(llm::captured_pages(8) == 8);
  CHECK(llm::captured_pages(9) == 10);
  CHECK(llm::captured_pages(2048) == 2048);
  CHECK(steps == 40);
}
