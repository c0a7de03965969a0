// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <switchyard/threads/reclaimer.hpp>

#include "threads.hpp"

using namespace switchyard;

namespace {

struct counted {
  static inline std::atomic<int> alive{0};
  static constexpr int sound = 0x5eed;
  std::atomic<int> state{sound};
  counted() { alive.fetch_add(1); }
  ~counted() {
    state.store(0, std::memory_order_relaxed);
    alive.fetch_sub(1);
  }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
};

void release(void* object) {
  delete static_cast<counted*>(object);
}

}  // namespace

TEST_CASE("an object is freed at once when nobody reads") {
  reclaimer owner;
  owner.retire(new counted, release);
  CHECK(owner.collect() == 0);
  CHECK(counted::alive == 0);
}

TEST_CASE("an object stays while a guard from before its retirement is held, and not longer") {
  reclaimer owner;
  {
    const reclaimer::guard reader{owner};
    owner.retire(new counted, release);
    for (int i = 0; i < 10; ++i) CHECK(owner.collect() == 1);
    CHECK(counted::alive == 1);
  }
  CHECK(owner.collect() == 0);
  CHECK(counted::alive == 0);
}

TEST_CASE("what still waits is freed with the reclaimer") {
  {
    reclaimer owner;
    std::thread{[&] {
      const reclaimer::guard reader{owner};
      owner.retire(new counted, release);
      owner.retire(new counted, release);
    }}.join();
  }
  CHECK(counted::alive == 0);
}

TEST_CASE("readers that come all the time do not hold a batch back") {
  reclaimer owner;
  // Guards overlap, so that some reader is always inside, as under traffic.
  auto before = std::make_unique<reclaimer::guard>(owner);
  owner.retire(new counted, release);
  for (int i = 0; i < 4 && counted::alive > 0; ++i) {
    auto next = std::make_unique<reclaimer::guard>(owner);
    before = std::move(next);
    (void)owner.collect();
  }
  CHECK(counted::alive == 0);
}

TEST_CASE("readers of many threads never see a freed object while writers replace it") {
  {
    reclaimer owner;
    std::atomic<counted*> published{new counted};
    std::atomic<bool> stop{false};
    std::atomic<long> reads{0};
    std::atomic<int> broken{0};
    auto readers = switchyard::test::start_threads(6, [&](int) {
      while (!stop.load(std::memory_order_relaxed)) {
        const reclaimer::guard guard{owner};
        const counted* seen = published.load(std::memory_order_seq_cst);
        for (int i = 0; i < 8; ++i) {
          if (seen->state.load(std::memory_order_relaxed) != counted::sound) broken.fetch_add(1);
        }
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
    switchyard::test::run_threads(2, [&](int) {
      for (int i = 0; i < 5'000; ++i) {
        owner.retire(published.exchange(new counted, std::memory_order_seq_cst), release);
      }
    });
    while (reads.load() < 1000) std::this_thread::yield();
    stop = true;
    switchyard::test::join_all(readers);
    CHECK(broken == 0);
    CHECK(owner.collect() == 0);
    CHECK(counted::alive == 1);
    delete published.load();
  }
  CHECK(counted::alive == 0);
}

TEST_CASE("objects for the owner are freed by the owner alone") {
  reclaimer owner;
  owner.retire_for_owner(new counted, release);
  (void)owner.retire(new counted, release);
  CHECK(owner.collect() == 0);
  CHECK(counted::alive == 1);
  CHECK(owner.collect_owned() == 0);
  CHECK(counted::alive == 0);
}

TEST_CASE("retiring tells how many objects wait for a reader") {
  reclaimer owner;
  {
    const reclaimer::guard reader{owner};
    CHECK(owner.retire(new counted, release) == 1);
    CHECK(owner.retire(new counted, release) == 2);
  }
  CHECK(owner.retire(new counted, release) == 0);
  CHECK(counted::alive == 0);
}

TEST_CASE("no two live threads write the same cache line, however many came and went before") {
  for (int i = 0; i < 100; ++i) std::thread{[] { (void)thread_index(); }}.join();
  reclaimer owner;
  constexpr std::size_t count = 150;  // more than the stripes that lie in the object itself
  std::vector<std::uintptr_t> lines(count + 1);
  // Before the others come: afterwards their lines are free for it.
  lines[count] = reinterpret_cast<std::uintptr_t>(owner.line_of_this_thread()) / 64;
  std::atomic<std::size_t> ready{0};
  switchyard::test::run_threads(count, [&](std::size_t t) {
    const reclaimer::guard guard{owner};
    lines[t] = reinterpret_cast<std::uintptr_t>(owner.line_of_this_thread()) / 64;
    ++ready;
    while (ready < count) std::this_thread::yield();
  });
  std::sort(lines.begin(), lines.end());
  CHECK(std::adjacent_find(lines.begin(), lines.end()) == lines.end());
}

TEST_CASE("a guard in a stripe that was made late holds objects back as well") {
  reclaimer owner;
  std::vector<std::thread> threads;
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  constexpr int count = 80;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      const reclaimer::guard guard{owner};
      ++inside;
      while (!leave) std::this_thread::yield();
    });
    while (inside <= t) std::this_thread::yield();
    if (t % 16 == 0) (void)owner.collect();  // phases flip between the arrivals
  }
  (void)owner.retire(new counted, release);
  for (int i = 0; i < 4; ++i) CHECK(owner.collect() == 1);
  leave = true;
  for (auto& thread : threads) thread.join();
  CHECK(owner.collect() == 0);
  CHECK(counted::alive == 0);
}
