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
#include <mutex>
#include <thread>
#include <vector>

#include <switchyard/devices/host/floating_point.hpp>

namespace switchyard {
inline namespace v0 {
namespace host {

class thread_pool {
 public:
  /// `threads` counts the launching thread in.
  explicit thread_pool(std::size_t threads) {
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  /// No launch may be under way.
  ~thread_pool() {
    {
      const std::scoped_lock lock{mutex_};
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& each : workers_) each.join();
  }

  /// Calls `function(index)` for every index below `count`; returns when all calls have returned.
  template <class Function>
  void run(std::uint64_t count, const Function& function) noexcept {
    if (count <= 1 || workers_.empty()) {
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
    if (count - 1 < workers_.size()) {
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
    for (job* each : jobs_) {
      if (each->next.load(std::memory_order_relaxed) < each->count) return each;
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

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<job*> jobs_;
  std::atomic<std::uint64_t> posted_{0};  // jobs so far
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace host
}  // namespace v0
}  // namespace switchyard
