// SPDX-License-Identifier: MIT
// A mutex for the cold paths of headers that engines include everywhere. <mutex> would do the same and costs
// 1,200 preprocessed lines and six headers in every unit, for <chrono>. fork() waits while another thread
// holds one, so in a child all are free and their data is consistent.
#pragma once

#include <atomic>

#include <switchyard/threads/fork.hpp>

namespace switchyard {
inline namespace v0 {

class mutex {
 public:
  void lock() noexcept {
    fork_gate::enter();
    while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true, std::memory_order_relaxed);
  }
  /// Whether it was free: it is held then. Never waits.
  [[nodiscard]] bool try_lock() noexcept {
    fork_gate::enter();
    if (!taken_.test_and_set(std::memory_order_acquire)) return true;
    fork_gate::leave();
    return false;
  }
  void unlock() noexcept {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
    fork_gate::leave();
  }

 private:
  std::atomic_flag taken_;
};

/// Holds a mutex for the life of the object.
class locked {
 public:
  explicit locked(mutex& held) noexcept : held_{held} { held_.lock(); }
  ~locked() { held_.unlock(); }
  locked(const locked&) = delete;
  locked& operator=(const locked&) = delete;

 private:
  mutex& held_;
};

}  // namespace v0
}  // namespace switchyard
