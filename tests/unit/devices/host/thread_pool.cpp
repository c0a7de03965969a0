// SPDX-License-Identifier: MIT
// The blocks of CPU launches, shared by threads.
#include <algorithm>
#include <atomic>
#include <catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include <switchyard/devices/host/thread_pool.hpp>

#include "threads.hpp"

using namespace switchyard;

namespace pooled {

/// Lets each of `count` blocks go on when all of them have begun: they need as many threads.
class meeting {
 public:
  explicit meeting(std::size_t count) : missing_{count} {}

  /// False where the others did not come within ten seconds.
  bool attend() {
    std::unique_lock lock{mutex_};
    if (--missing_ == 0) all_are_here_.notify_all();
    return all_are_here_.wait_for(lock, std::chrono::seconds{10}, [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_are_here_;
  std::size_t missing_;
};

}  // namespace pooled

TEST_CASE("each block runs once, whatever the number of threads") {
  for (const std::size_t threads : {1U, 2U, 5U}) {
    host::thread_pool pool{threads};
    for (const std::uint64_t count : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 1000U}) {
      std::vector<std::atomic<int>> runs(count + 1);
      pool.run(count, [&](std::uint64_t index) { ++runs.at(index); });
      for (std::uint64_t i = 0; i < count; ++i) REQUIRE(runs[i] == 1);
      REQUIRE(runs[count] == 0);
    }
  }
}

TEST_CASE("a pool has the threads that it is given, the launching one among them, until it ends") {
  const auto running = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {});
  };
  const std::ptrdiff_t before = running();
  for (const std::size_t threads : {1U, 2U, 5U}) {
    const host::thread_pool pool{threads};
    CHECK(running() == before + static_cast<std::ptrdiff_t>(threads) - 1);
  }
}

TEST_CASE("a launch has as many threads as it has blocks, up to all of them") {
  constexpr std::size_t threads = 4;
  host::thread_pool pool{threads};
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t blocks = 2; blocks <= threads; ++blocks) {
      INFO(blocks << " blocks");
      std::this_thread::sleep_for(std::chrono::milliseconds{5});  // the workers sleep
      pooled::meeting all{blocks};
      std::atomic<std::size_t> met{0};
      pool.run(blocks, [&](std::uint64_t) { met += all.attend() ? 1U : 0U; });
      REQUIRE(met == blocks);
    }
  }
}

TEST_CASE("a pool of one thread runs blocks in order, in the thread that launches") {
  host::thread_pool pool{1};
  std::vector<std::uint64_t> order;
  const auto mine = std::this_thread::get_id();
  pool.run(50, [&](std::uint64_t index) {
    if (std::this_thread::get_id() == mine) order.push_back(index);
  });
  CHECK(order.size() == 50);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a launch returns when the last block of its helpers has") {
  host::thread_pool pool{3};
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> done{0};
    const auto mine = std::this_thread::get_id();
    pool.run(3, [&](std::uint64_t) {
      if (std::this_thread::get_id() != mine) std::this_thread::sleep_for(std::chrono::milliseconds{2});
      ++done;
    });
    REQUIRE(done == 3);
  }
}

TEST_CASE("launches of several threads at once share the workers, and each gets its own blocks") {
  host::thread_pool pool{3};
  std::atomic<int> wrong{0};
  switchyard::test::run_threads(4, [&pool, &wrong](int caller) {
    for (int repeat = 0; repeat < 300; ++repeat) {
      const auto count = static_cast<std::uint64_t>(2 + (caller + repeat) % 7);
      std::vector<std::atomic<int>> runs(count);
      pool.run(count, [&](std::uint64_t index) { ++runs.at(index); });
      for (const auto& ran : runs) wrong += ran == 1 ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}
