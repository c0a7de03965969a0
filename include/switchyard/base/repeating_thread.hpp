// A thread that does something at an interval until it is stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <switchyard/base/fork.hpp>

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
  void start(std::chrono::milliseconds interval, std::function<void()> action) {
    const std::scoped_lock changing{change_mutex_};
    end();
    is_stopped_ = false;
    thread_ = std::thread{[this, interval, action = std::move(action)] {
      std::unique_lock waiting{mutex_};
      while (!wake_.wait_for(waiting, interval, [this] { return is_stopped_; })) {
        waiting.unlock();
        action();
        waiting.lock();
      }
    }};
  }

  /// Waits for an action under way.
  void stop() noexcept {
    const std::scoped_lock changing{change_mutex_};
    end();
  }

 private:
  void end() noexcept {
    {
      const std::scoped_lock lock{mutex_};
      is_stopped_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // What belongs to the parent's threads is abandoned, not destroyed: they may hold the locks.
  static void renew(void* object) noexcept {
    auto& mine = *static_cast<repeating_thread*>(object);
    new (&mine.change_mutex_) std::mutex;
    new (&mine.mutex_) std::mutex;
    new (&mine.wake_) std::condition_variable;
    new (&mine.thread_) std::thread;
  }

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
