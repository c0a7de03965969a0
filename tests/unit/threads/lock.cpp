// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <thread>

#include <switchyard/threads/lock.hpp>

#include "threads.hpp"

using namespace switchyard;

TEST_CASE("a mutex lets one thread in at a time") {
  mutex guarded;
  long counter = 0;
  switchyard::test::run_threads(8, [&](int) {
    for (int i = 0; i < 20'000; ++i) {
      const locked lock{guarded};
      counter = counter + 1;
    }
  });
  CHECK(counter == 160'000);
}

TEST_CASE("locked frees the mutex when it goes out of scope") {
  mutex guarded;
  { const locked lock{guarded}; }
  bool entered = false;
  std::thread other{[&] {
    const locked lock{guarded};
    entered = true;
  }};
  other.join();
  CHECK(entered);
}

TEST_CASE("try_lock takes a free mutex, and leaves one that is held") {
  mutex held;
  REQUIRE(held.try_lock());
  bool taken = true;
  std::thread{[&] { taken = held.try_lock(); }}.join();
  CHECK_FALSE(taken);
  held.unlock();
  REQUIRE(held.try_lock());
  held.unlock();
}
