// SPDX-License-Identifier: MIT
// Threads that share the blocks of CPU launches.
//
// A launch's own thread always works too, so a pool without workers is a plain loop, and launches from
// several threads at once do not wait for each other. Blocks are handed out one by one, in order. Each thread
// has its floating-point mode back when its share of a launch is done.
//
// Waiting threads watch a counter for some tens of microseconds before they sleep: an engine launches
// hundreds of small kernels one after the other, and waking a thread takes longer than most of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <switchyard/devices/host/floating_point.hpp>
#include <switchyard/threads/fork.hpp>

namespace switchyard {
inline namespace v0 {
namespace host {

class thread_pool {
 public:
  /// `threads` counts the launching thread in. Where the system gives fewer, these serve: at least the
  /// launching one.
  explicit thread_pool(std::size_t threads) : wanted_{threads == 0 ? 0 : threads - 1} { start(); }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  /// No launch may be under way.
  ~thread_pool() { stop(); }

  /// Ends the workers: launches go on in their own threads alone. Others may launch meanwhile.
  void stop() noexcept {
    std::vector<std::thread> ending;
    {
      const std::scoped_lock lock{mutex_};
      stopping_ = true;
      wanted_ = 0;
      ready_.store(0, std::memory_order_relaxed);
      ending.swap(workers_);
    }
    wake_.notify_all();
    for (std::thread& worker : ending) worker.join();
  }

  /// How many threads work on a launch, the launching one among them.
  [[nodiscard]] std::size_t threads() const noexcept { return ready_.load(std::memory_order_relaxed) + 1; }

  /// Calls `function(index)` for every index below `count`; returns when all calls have returned.
  template <class Function>
  void run(std::uint64_t count, const Function& function) noexcept {
    std::size_t workers = ready_.load(std::memory_order_acquire);
    if (workers == 0 && lost_.load(std::memory_order_relaxed)) [[unlikely]]
      workers = start();
    if (count <= 1 || workers == 0) {
      const floating_point_guard mode;
      for (std::uint64_t i = 0; i < count; ++i) function(i);
      return;
    }
    job mine;
    mine.count = count;
    mine.function = &function;
    mine.call = [](const void* erased, std::uint64_t index) {
      (*static_cast<const Function*>(erased))(index);
    };
    {
      const std::scoped_lock lock{mutex_};
      jobs_.push_back(&mine);
      posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    if (count - 1 < workers) {
      for (std::uint64_t i = 1; i < count; ++i) wake_.notify_one();
    } else {
      wake_.notify_all();
    }
    mine.work();
    std::unique_lock lock{mutex_};
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i] != &mine) continue;
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (mine.helpers == 0) return;  // none comes any more
    lock.unlock();
    if (watch([&mine] { return mine.helpers == 0; })) return;
    lock.lock();
    done_.wait(lock, [&mine] { return mine.helpers == 0; });
  }

 private:
  struct job {
    std::atomic<std::uint64_t> next{0};
    std::uint64_t count = 0;
    const void* function = nullptr;
    void (*call)(const void*, std::uint64_t) = nullptr;
    std::atomic<std::size_t> helpers{0};  // workers inside; changed under the pool's mutex

    void work() {
      const floating_point_guard mode;
      for (std::uint64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        call(function, i);
      }
    }
  };

  [[nodiscard]] job* find_job() const {
    for (job* queued : jobs_) {
      if (queued->next.load(std::memory_order_relaxed) < queued->count) return queued;
    }
    return nullptr;
  }

  /// Whether a condition became true while it was watched.
  template <class Condition>
  [[nodiscard]] static bool watch(const Condition& holds) noexcept {
    constexpr int pauses = 1000;
    for (int i = 0; i < pauses; ++i) {
      if (holds()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("isb");  // as long as a pause; `yield` does nothing on most processors
#endif
    }
    return false;
  }

  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      job* found = stopping_ ? nullptr : find_job();
      if (found == nullptr && !stopping_) {
        const std::uint64_t met = posted_.load(std::memory_order_relaxed);
        lock.unlock();
        static_cast<void>(watch([&] { return posted_.load(std::memory_order_acquire) != met; }));
        lock.lock();
        wake_.wait(lock, [&] { return stopping_ || (found = find_job()) != nullptr; });
      }
      if (stopping_) return;
      found->helpers.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      found->work();
      lock.lock();
      // The launch may return, and its job be gone, as soon as no helper is left.
      if (found->helpers.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
    }
  }

  /// Starts the workers; returns how many there are.
  std::size_t start() noexcept {
    const std::scoped_lock lock{mutex_};
    lost_ = false;
    try {
      while (workers_.size() < wanted_) workers_.emplace_back([this] { work(); });
    } catch (const std::exception&) {  // no thread or no memory left: what there is serves
    }
    ready_.store(workers_.size(), std::memory_order_release);
    return workers_.size();
  }

  // The parent's workers and launches do not exist in a child of fork(), and may have held the lock: all that
  // was theirs is abandoned, not destroyed. The next launch starts workers.
  static void renew(void* object) noexcept {
    auto& mine = *static_cast<thread_pool*>(object);
    new (&mine.mutex_) std::mutex;
    new (&mine.wake_) std::condition_variable;
    new (&mine.done_) std::condition_variable;
    new (&mine.jobs_) std::vector<job*>;
    new (&mine.workers_) std::vector<std::thread>;
    mine.ready_ = 0;
    mine.lost_ = mine.wanted_ > 0;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<job*> jobs_;
  std::atomic<std::uint64_t> posted_{0};  // jobs so far
  bool stopping_ = false;
  std::size_t wanted_;  // workers
  std::vector<std::thread> workers_;
  std::atomic<std::size_t> ready_{0};  // workers_.size(), for launches
  std::atomic<bool> lost_{false};      // by fork(): to be started again
  fork_listener forks_{this, &renew};
};

}  // namespace host
}  // namespace v0
}  // namespace switchyard
