// SPDX-License-Identifier: MIT
// Children of fork(): they end, launch on the CPU, and take no lock that a thread of the parent holds.
#include <atomic>
#include <catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <sys/resource.h>
#include <thread>

#include <switchyard/devices/host/thread_pool.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/repeating_thread.hpp>

#include "../../../child_process.hpp"
#include "../../../sanitized.hpp"
#include "threads.hpp"

using namespace switchyard;
using namespace std::chrono_literals;

namespace forked {

std::uint64_t blocks_run(host::thread_pool& pool) {
  std::atomic<std::uint64_t> runs{0};
  pool.run(100, [&](std::uint64_t) { ++runs; });
  return runs;
}

}  // namespace forked

TEST_CASE("a child of a process with a thread pool launches with threads of its own, and ends the pool") {
  if (::test::sanitized) return;  // ThreadSanitizer starts no threads in a child
  auto pool = std::make_unique<host::thread_pool>(3);
  CHECK(::test::status_of_child([&] {
          const bool ran = forked::blocks_run(*pool) == 100 && pool->threads() == 3;
          pool.reset();
          return ran ? 7 : 1;
        }) == 7);
  CHECK(::test::status_of_child([&] { return pool.reset(), 8; }) == 8);
  CHECK(forked::blocks_run(*pool) == 100);
}

TEST_CASE("children of a process with busy launches and busy locks end") {
  if (::test::sanitized) return;  // ThreadSanitizer starts no threads in a child
  host::thread_pool pool{3};
  switchyard::mutex guarding;
  std::atomic<std::int64_t> pair{0};  // both halves change under the lock
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::atomic<bool> stop{false};
  auto busy = switchyard::test::start_threads(2, [&](int) {
    while (!stop) {
      (void)forked::blocks_run(pool);
      const locked lock{guarding};
      ++first;
      std::this_thread::yield();
      ++second;
    }
  });
  repeating_thread repeats;
  repeats.start(1ms, [&] {
    const locked lock{guarding};
    ++pair;
  });
  for (int i = 0; i < 50; ++i) {
    INFO("child " << i);
    CHECK(::test::status_of_child([&] {
            bool is_right = forked::blocks_run(pool) == 100;
            {
              const locked lock{guarding};
              is_right = is_right && first == second;
            }
            repeats.start(1ms, [&] { ++pair; });
            const std::int64_t before = pair;
            for (int wait = 0; wait < 5000 && pair == before; ++wait) std::this_thread::sleep_for(1ms);
            is_right = is_right && pair != before;
            repeats.stop();
            pool.stop();
            return is_right ? 7 : 1;
          }) == 7);
  }
  stop = true;
  switchyard::test::join_all(busy);
}

TEST_CASE("a child stops a repeating thread of its parent's at once") {
  repeating_thread repeats;
  repeats.start(1ms, [] { std::this_thread::sleep_for(1ms); });
  for (int i = 0; i < 20; ++i) CHECK(::test::status_of_child([&] { return repeats.stop(), 7; }) == 7);
}

TEST_CASE("a pool serves with the threads that the system gives it") {
  if (::test::sanitized) return;  // sanitizers reserve more than the limit
  CHECK(::test::status_of_child([] {
          // Address space for a few stacks only: a limit that holds for root as well.
          const ::rlimit most{512U << 20U, 512U << 20U};
          if (::setrlimit(RLIMIT_AS, &most) != 0) return 2;
          host::thread_pool pool{100'000};
          if (pool.threads() >= 100'000) return 3;
          return forked::blocks_run(pool) == 100 ? 7 : 1;
        }) == 7);
}
