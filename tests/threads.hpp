// SPDX-License-Identifier: MIT
// Work in several threads at once.
#pragma once

#include <thread>
#include <vector>

namespace switchyard::test {

/// Starts `count` threads, which run work(0) to work(count - 1).
template <class Index, class Work>
[[nodiscard]] std::vector<std::thread> start_threads(Index count, const Work& work) {
  std::vector<std::thread> out;
  for (Index i = 0; i < count; ++i) out.emplace_back([work, i] { work(i); });
  return out;
}

inline void join_all(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

/// The same, and waits for them.
template <class Index, class Work>
void run_threads(Index count, const Work& work) {
  std::vector<std::thread> threads = start_threads(count, work);
  join_all(threads);
}

}  // namespace switchyard::test
