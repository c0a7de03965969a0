// SPDX-License-Identifier: MIT
#include <atomic>
#include <catch.hpp>
#include <chrono>
#include <thread>

#include <switchyard/threads/repeating_thread.hpp>

#include "threads.hpp"

using namespace switchyard;
using namespace std::chrono_literals;

TEST_CASE("an action is repeated until it is stopped") {
  std::atomic<int> count{0};
  repeating_thread repeats;
  repeats.start(1ms, [&] { ++count; });
  while (count < 3) std::this_thread::yield();
  repeats.stop();
  const int stopped = count;
  std::this_thread::sleep_for(20ms);
  CHECK(count == stopped);
}

TEST_CASE("starting again replaces the action; ending waits for it") {
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  {
    repeating_thread repeats;
    repeats.start(1ms, [&] { ++first; });
    while (first < 1) std::this_thread::yield();
    repeats.start(1ms, [&] { ++second; });
    const int replaced = first;
    while (second < 1) std::this_thread::yield();
    CHECK(first == replaced);
  }
  const int ended = second;
  std::this_thread::sleep_for(10ms);
  CHECK(second == ended);
}

TEST_CASE("threads may start and stop it at once") {
  repeating_thread repeats;
  std::atomic<int> count{0};
  switchyard::test::run_threads(4, [&](int t) {
    for (int i = 0; i < 50; ++i) {
      if ((i + t) % 2 == 0) {
        repeats.start(1ms, [&] { ++count; });
      } else {
        repeats.stop();
      }
    }
  });
  repeats.stop();
  const int stopped = count;
  std::this_thread::sleep_for(10ms);
  CHECK(count == stopped);
}
