// Lets readers use what writers may replace, without locks: read-copy-update in user space.
//
// A reader holds a guard while it uses a published pointer. A writer first unpublishes an object, then
// retires it; the object is freed once no guard taken before is left. Entering and leaving are one atomic
// addition each on a counter that few threads share, so readers do not wait for each other or for writers.
// After the sleepable RCU of the Linux kernel (McKenney): two counters, flipped twice for each batch of
// retired objects, so that readers that come all the time cannot hold a batch back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// How many counters the readers of one reclaimer share.
inline constexpr unsigned reader_stripes = 32;

/// The calling thread's stripe: threads take them in turn.
[[nodiscard]] inline unsigned thread_stripe() noexcept {
  static std::atomic<unsigned> threads{0};
  static thread_local unsigned mine = reader_stripes;  // none yet
  if (mine == reader_stripes) mine = threads.fetch_add(1, std::memory_order_relaxed) % reader_stripes;
  return mine;
}

}  // namespace detail

class reclaimer {
  // A domain of its own, phase and all, so that a reader touches one cache line.
  struct alignas(64) stripe {
    std::array<std::atomic<std::uint32_t>, 2> readers{};
    std::atomic<unsigned> phase{0};  // 0 or 1
  };

 public:
  reclaimer() = default;
  reclaimer(const reclaimer&) = delete;
  reclaimer& operator=(const reclaimer&) = delete;
  /// No guard may be held any more.
  ~reclaimer() {
    free_all(waiting_);
    free_all(open_);
  }

  class guard {
   public:
    explicit guard(reclaimer& owner) noexcept : guard{owner.stripes_[detail::thread_stripe()]} {}
    ~guard() { readers_.fetch_sub(1, std::memory_order_release); }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

   private:
    explicit guard(stripe& mine) noexcept
        : readers_{mine.readers[mine.phase.load(std::memory_order_relaxed)]} {
      // Sequentially consistent: no later load of a published pointer may move before it.
      readers_.fetch_add(1, std::memory_order_seq_cst);
    }

    std::atomic<std::uint32_t>& readers_;
  };

  /// Hands over an object that no new reader can find. `release` is called with it later, from a thread that
  /// retires or collects.
  void retire(void* object, void (*release)(void*)) {
    std::vector<retired> ready;
    {
      const locked lock{mutex_};
      open_.push_back({object, release});
      advance(ready);
    }
    free_all(ready);
  }

  /// Frees what can be freed now; returns how many objects still wait.
  std::size_t collect() {
    std::vector<retired> ready;
    std::size_t left = 0;
    {
      const locked lock{mutex_};
      advance(ready);
      left = open_.size() + waiting_.size();
    }
    free_all(ready);
    return left;
  }

 private:
  struct retired {
    void* object;
    void (*release)(void*);
  };

  static void free_all(std::vector<retired>& objects) noexcept {
    for (const retired& each : objects) each.release(each.object);
    objects.clear();
  }

  [[nodiscard]] bool quiet(unsigned phase) const noexcept {
    for (const stripe& each : stripes_) {
      if (each.readers[phase].load(std::memory_order_seq_cst) != 0) return false;
    }
    return true;
  }

  // A batch is sealed in stage 0; it is free when first the resting counter and then, after a flip, the other
  // one have been seen at zero. A reader that took its phase before a flip and counts after it reads pointers
  // later still, so it cannot see the batch.
  void advance(std::vector<retired>& ready) {
    for (;;) {
      if (stage_ == 0) {
        if (open_.empty()) return;
        waiting_.swap(open_);
        stage_ = 1;
      }
      if (!quiet(phase_ ^ 1U)) return;
      if (stage_ == 1) {
        phase_ ^= 1U;
        for (stripe& each : stripes_) each.phase.store(phase_, std::memory_order_seq_cst);
        stage_ = 2;
        continue;
      }
      ready.insert(ready.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      stage_ = 0;
    }
  }

  std::array<stripe, detail::reader_stripes> stripes_;
  unsigned phase_ = 0;  // of all stripes
  mutex mutex_;
  std::vector<retired> open_;
  std::vector<retired> waiting_;
  int stage_ = 0;
};

}  // namespace v0
}  // namespace switchyard
