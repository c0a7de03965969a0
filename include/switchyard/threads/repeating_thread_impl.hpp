// SPDX-License-Identifier: MIT
// The bodies of repeating_thread.hpp.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/threads/repeating_thread.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void repeating_thread::start(std::chrono::milliseconds interval,
                                             std::function<void()> action) {
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

SWITCHYARD_COLD void repeating_thread::stop() noexcept {
  const std::scoped_lock changing{change_mutex_};
  end();
}

SWITCHYARD_COLD void repeating_thread::end() noexcept {
  {
    const std::scoped_lock lock{mutex_};
    is_stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

SWITCHYARD_COLD void repeating_thread::renew(void* object) noexcept {
  auto& mine = *static_cast<repeating_thread*>(object);
  new (&mine.change_mutex_) std::mutex;
  new (&mine.mutex_) std::mutex;
  new (&mine.wake_) std::condition_variable;
  new (&mine.thread_) std::thread;
}

}  // namespace v0
}  // namespace switchyard
