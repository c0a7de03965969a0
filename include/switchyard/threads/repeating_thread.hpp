// SPDX-License-Identifier: MIT
// A thread that does something at an interval until it is stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <switchyard/base/compiled.hpp>
#include <switchyard/threads/fork.hpp>

namespace switchyard {
inline namespace v0 {

/// Any thread may call any function, except that `action` must not. A child of fork() has no such thread
/// until it calls start().
class repeating_thread {
 public:
  repeating_thread() = default;
  repeating_thread(const repeating_thread&) = delete;
  repeating_thread& operator=(const repeating_thread&) = delete;
  ~repeating_thread() { stop(); }

  /// Starts, or starts again at another interval. `action` must not throw.
  void start(std::chrono::milliseconds interval, std::function<void()> action);

  /// Waits for an action under way.
  void stop() noexcept;

 private:
  void end() noexcept;

  // What belongs to the parent's threads is abandoned, not destroyed: they may hold the locks.
  static void renew(void* object) noexcept;

  // Outside fork_gate, since stop() holds it while it waits for an action.
  std::mutex change_mutex_;  // one start or stop at a time; the thread never takes it
  std::mutex mutex_;         // guards is_stopped_ while the thread runs
  std::condition_variable wake_;
  bool is_stopped_ = false;
  std::thread thread_;
  fork_listener forks_{this, &renew};
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/threads/repeating_thread_impl.hpp>
#endif
