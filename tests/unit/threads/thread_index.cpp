// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <catch.hpp>
#include <thread>
#include <vector>

#include <switchyard/threads/thread_index.hpp>

#include "threads.hpp"

using namespace switchyard;

namespace {

/// Takes an index in the destructor of an object that outlives the thread's own holder.
struct late_caller {
  std::atomic<unsigned>* to = nullptr;
  ~late_caller() {
    if (to != nullptr) *to = thread_index();
  }
};

}  // namespace

TEST_CASE("a thread keeps its index, and gives it back") {
  const unsigned mine = thread_index();
  unsigned first = 0;
  unsigned second = 0;
  std::thread{[&] {
    first = thread_index();
    CHECK(thread_index() == first);
  }}.join();
  std::thread{[&] { second = thread_index(); }}.join();
  CHECK(first != shared_thread_index);
  CHECK(second == first);
  CHECK(first != mine);
  CHECK(thread_index() == mine);
}

TEST_CASE("live threads have indices of their own, as small as can be") {
  constexpr unsigned count = 40;
  std::atomic<unsigned> ready{0};
  std::vector<unsigned> indices(count);
  switchyard::test::run_threads(count, [&](unsigned t) {
    indices[t] = thread_index();
    ++ready;
    while (ready < count) std::this_thread::yield();
  });
  std::sort(indices.begin(), indices.end());
  CHECK(std::adjacent_find(indices.begin(), indices.end()) == indices.end());
  CHECK(indices.back() <= count + 4);
}

TEST_CASE("a thread that ends still gets an index") {
  std::atomic<unsigned> late{~0U};
  std::thread{[&] {
    static thread_local late_caller caller;  // before the index, so that it is destroyed after it
    caller.to = &late;
    (void)thread_index();
  }}.join();
  CHECK(late == shared_thread_index);
}
