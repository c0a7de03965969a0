#include <atomic>
#include <catch.hpp>
#include <thread>
#include <vector>

#include <switchyard/base/reclaimer.hpp>

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
    std::vector<std::thread> readers;
    for (int t = 0; t < 6; ++t) {
      readers.emplace_back([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          const reclaimer::guard guard{owner};
          const counted* seen = published.load(std::memory_order_seq_cst);
          for (int i = 0; i < 8; ++i) {
            if (seen->state.load(std::memory_order_relaxed) != counted::sound) broken.fetch_add(1);
          }
          reads.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    std::vector<std::thread> writers;
    for (int t = 0; t < 2; ++t) {
      writers.emplace_back([&] {
        for (int i = 0; i < 5'000; ++i) {
          owner.retire(published.exchange(new counted, std::memory_order_seq_cst), release);
        }
      });
    }
    for (auto& each : writers) each.join();
    while (reads.load() < 1000) std::this_thread::yield();
    stop = true;
    for (auto& each : readers) each.join();
    CHECK(broken == 0);
    CHECK(owner.collect() == 0);
    CHECK(counted::alive == 1);
    delete published.load();
  }
  CHECK(counted::alive == 0);
}
