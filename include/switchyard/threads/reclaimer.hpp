// SPDX-License-Identifier: MIT
// Lets readers use objects that writers replace, without locks: read-copy-update in user space.
//
// A reader holds a guard while it uses a published pointer. A writer first unpublishes an object, then
// retires it; the object is freed once no guard taken before is left. Entering and leaving are one atomic
// addition each on a counter that only the calling thread touches, so readers wait neither for each other nor
// for writers. After the sleepable RCU of the Linux kernel (McKenney): two counters, flipped twice for each
// batch of retired objects, so that readers that come all the time cannot hold a batch back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/thread_index.hpp>

namespace switchyard {
inline namespace v0 {

class reclaimer {
  // One a thread, phase and all, so that a reader touches one cache line, and no other reader touches it.
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
    for (auto* const objects : {&waiting_, &open_, &ready_for_owner_}) release_all(*objects);
    for (auto& block : more_) delete[] block.load(std::memory_order_relaxed);
  }

  class guard {
   public:
    explicit guard(reclaimer& owner) noexcept : guard{owner.stripe_of_this_thread()} {}
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

  /// Hands over an object that no new reader can find. `release` is called with it later, from any thread
  /// that retires or collects. Returns how many objects still wait. An object is leaked where no memory is
  /// left to note it: what readers may use is never freed.
  std::size_t retire(void* object, void (*release)(void*)) noexcept {
    return retire_and_collect({object, release, false});
  }

  /// Like retire, but nothing is freed before several objects wait: for objects that come one by one, all the
  /// time. Until then they are in no batch, and the next call that seals one takes them along, of whichever
  /// kind it is; the destructor frees the last ones.
  std::size_t retire_lazily(void* object, void (*release)(void*)) noexcept {
    return retire_and_collect({object, release, false}, lazy_batch);
  }

  /// Like retire, but `release` is called by collect_owned alone: for objects whose release takes long. False
  /// where no memory is left to note the object: the owner keeps it, and tries again.
  bool retire_for_owner(void* object, void (*release)(void*)) noexcept {
    try {
      const locked lock{mutex_};
      const retired by_owner{object, release, true};
      open_.push_back(by_owner);
    } catch (const std::bad_alloc&) {
      return false;
    }
    (void)collect();
    return true;
  }

  /// Frees what can be freed now, except the owner's objects; returns how many objects still wait for
  /// readers.
  std::size_t collect() noexcept {
    std::vector<retired> ready;
    const std::size_t left = advance(ready);
    free_all(ready);
    return left;
  }

  /// Frees what can be freed now; returns how many objects still wait for readers.
  std::size_t collect_owned() noexcept {
    std::vector<retired> ready;
    const std::size_t left = advance(ready);
    free_all(ready);
    std::vector<retired> owned;
    {
      const locked lock{mutex_};
      owned.swap(ready_for_owner_);
    }
    release_all(owned);
    return left;
  }

  /// The cache line that the calling thread's guards write.
  [[nodiscard]] const void* line_of_this_thread() noexcept { return &stripe_of_this_thread(); }

 private:
  struct retired {
    void* object;
    void (*release)(void*);
    bool by_owner;
  };

  static constexpr unsigned first_stripes = 32;
  static constexpr unsigned max_blocks = 16;    // 2 million threads
  static constexpr std::size_t lazy_batch = 6;  // few enough to come from an allocator's cache again
  static constexpr std::size_t max_spare = 64;

  static void release_all(std::vector<retired>& objects) noexcept {
    for (const retired& waiting : objects) waiting.release(waiting.object);
    objects.clear();
  }

  /// Frees objects that are no longer used, and keeps the list's memory for the next batch.
  void free_all(std::vector<retired>& objects) noexcept {
    release_all(objects);
    if (objects.capacity() == 0 || objects.capacity() > max_spare) return;
    const locked lock{mutex_};
    spare_.swap(objects);
  }

  // One comparison on the way of every call: a thread without an index has a large one. Sequentially
  // consistent: a writer that unpublishes behind this thread's later load of a pointer sees its stripe.
  [[nodiscard]] stripe& stripe_of_this_thread() noexcept {
    const unsigned index = known_thread_index();
    if (index < met_.load(std::memory_order_seq_cst)) [[likely]]
      return first_[index];
    return new_stripe();
  }

  /// Counts the calling thread's stripe among those that were met, where it is one of the first.
  [[nodiscard, gnu::noinline, gnu::cold]] stripe& new_stripe() noexcept {
    const unsigned index = thread_index();
    if (index >= first_stripes) return distant_stripe();
    const locked lock{mutex_};
    for (unsigned i = met_.load(std::memory_order_relaxed); i <= index; ++i) {
      first_[i].phase.store(phase_, std::memory_order_relaxed);
      met_.store(i + 1, std::memory_order_seq_cst);
    }
    return first_[index];
  }

  // Block b has 32 << b stripes, for the threads from index 32 << b on.
  [[nodiscard]] static constexpr std::size_t block_size(std::size_t block) noexcept {
    return std::size_t{first_stripes} << block;
  }

  [[nodiscard, gnu::noinline, gnu::cold]] stripe& distant_stripe() noexcept {
    const unsigned index = thread_index();
    std::size_t block = 0;
    while (index >= 2 * block_size(block)) ++block;
    if (block >= max_blocks) return first_[shared_thread_index];
    stripe* stripes = more_[block].load(std::memory_order_seq_cst);
    if (stripes == nullptr) {
      const locked lock{mutex_};
      stripes = more_[block].load(std::memory_order_relaxed);
      if (stripes == nullptr) {
        stripes = new (std::nothrow) stripe[block_size(block)];
        if (stripes == nullptr) return first_[shared_thread_index];
        for (std::size_t i = 0; i < block_size(block); ++i)
          stripes[i].phase.store(phase_, std::memory_order_relaxed);
        more_[block].store(stripes, std::memory_order_seq_cst);
      }
    }
    return stripes[index - block_size(block)];
  }

  /// Calls `visit` with each stripe until it returns false; whether it never did.
  template <class Visitor>
  [[nodiscard]] bool for_all(const Visitor& visit) noexcept {
    for (unsigned i = 0, met = met_.load(std::memory_order_seq_cst); i < met; ++i) {
      if (!visit(first_[i])) return false;
    }
    for (std::size_t block = 0; block < max_blocks; ++block) {
      stripe* const stripes = more_[block].load(std::memory_order_seq_cst);
      for (std::size_t i = 0; stripes != nullptr && i < block_size(block); ++i) {
        if (!visit(stripes[i])) return false;
      }
    }
    return true;
  }

  std::size_t retire_and_collect(const retired& object, std::size_t batch = 1) noexcept {
    std::vector<retired> ready;
    try {
      const locked lock{mutex_};
      open_.push_back(object);
      if (open_.size() < batch) return open_.size() + waiting_.size();
    } catch (const std::bad_alloc&) {
      // Leaked.
    }
    const std::size_t left = advance(ready);
    free_all(ready);
    return left;
  }

  // A batch is sealed in stage 0; it is free when first the resting counter and then, after a flip, the other
  // one have been seen at zero. Returns how many objects wait.
  //
  // Why that suffices: consider the one order of all sequentially consistent operations. A reader looks at
  // met_ (or more_), counts, and loads pointers, in this order; a writer unpublishes, seals, looks at met_
  // and at both counters of each stripe. A reader that still finds an object has loaded its pointer before
  // that was unpublished. So it has counted, in a stripe that was met, before the writer looked at either
  // counter, and the writer sees the count until the guard is gone. Which counter it is does not matter: a
  // phase that was taken before a flip may be used after it. A reader that counts later than the writer looks
  // loads the new pointer. Flips are there for progress alone: new readers leave the counter that is waited
  // for.
  //
  // What a reader did with an object happens before its release: the reader leaves with a release operation,
  // and the writer reads from it, or from a later addition to the same counter, which continues the sequence.
  std::size_t advance(std::vector<retired>& ready) noexcept {
    const locked lock{mutex_};
    for (;;) {
      if (stage_ == 0) {
        if (open_.empty()) break;
        waiting_.swap(open_);
        stage_ = 1;
      }
      const unsigned resting = phase_ ^ 1U;
      const bool quiet = for_all([resting](const stripe& part) {
        return part.readers[resting].load(std::memory_order_seq_cst) == 0;
      });
      if (!quiet) break;
      if (stage_ == 1) {
        phase_ = resting;
        (void)for_all([resting](stripe& part) {
          part.phase.store(resting, std::memory_order_seq_cst);
          return true;
        });
        stage_ = 2;
        continue;
      }
      try {  // room first: an object must not be in two lists
        if (ready.capacity() == 0) ready.swap(spare_);
        ready.reserve(ready.size() + waiting_.size());
        ready_for_owner_.reserve(ready_for_owner_.size() + waiting_.size());
      } catch (const std::bad_alloc&) {
        break;
      }
      for (const retired& waiting : waiting_)
        (waiting.by_owner ? ready_for_owner_ : ready).push_back(waiting);
      waiting_.clear();
      stage_ = 0;
    }
    return open_.size() + waiting_.size();
  }

  std::array<stripe, first_stripes> first_;
  // Stripes of `first_` that a thread has entered, all below: a writer looks at no others. Stripe 0, which
  // threads may share, always counts.
  std::atomic<unsigned> met_{1};
  std::array<std::atomic<stripe*>, max_blocks> more_{};
  // What writers contend for, away from what every reader loads.
  alignas(64) mutex mutex_;
  unsigned phase_ = 0;  // of all stripes
  int stage_ = 0;
  std::vector<retired> open_;
  std::vector<retired> waiting_;
  std::vector<retired> ready_for_owner_;
  std::vector<retired> spare_;  // empty: memory for the next batch
};

}  // namespace v0
}  // namespace switchyard
