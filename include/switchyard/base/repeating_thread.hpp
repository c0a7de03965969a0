// A thread that does something at an interval until it is stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace switchyard {
inline namespace v0 {

/// Any thread may call any function, except that `action` must not.
class repeating_thread {
 public:
  repeating_thread() = default;
  repeating_thread(const repeating_thread&) = delete;
  repeating_thread& operator=(const repeating_thread&) = delete;
  ~repeating_thread() { stop(); }

  /// Starts, or starts again at another interval. `action` must not throw.
  void start(std::chrono::milliseconds interval, std::function<void()> action) {
    stop();
    const std::scoped_lock lock{mutex_};
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
    std::thread ended;
    {
      const std::scoped_lock lock{mutex_};
      is_stopped_ = true;
      ended.swap(thread_);
    }
    wake_.notify_all();
    if (ended.joinable()) ended.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  bool is_stopped_ = false;
};

}  // namespace v0
}  // namespace switchyard
