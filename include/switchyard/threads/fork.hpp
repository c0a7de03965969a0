// SPDX-License-Identifier: MIT
// Makes fork() safe: no lock or thread of the parent blocks the child.
//
// A child has one thread, and a copy of all locks: one that another thread held stays locked for ever. So
// fork() waits until no other thread holds a lock of this library (fork_gate, entered by threads/lock.hpp);
// in the child, all guarded data is consistent. Objects that own threads, or handles that a child must not
// use, are notified in the child (fork_listener). Paths without locks cost nothing.
#pragma once

#include <atomic>
#include <pthread.h>

namespace switchyard {
inline namespace v0 {

class fork_gate {
 public:
  /// Enters; waits while another thread forks. A thread may enter again before it leaves.
  static void enter() noexcept {
    static const bool handles = ::pthread_atfork(&prepare, &in_parent, &in_child) == 0;
    (void)handles;
    if (depth()++ > 0) return;
    for (;;) {
      int now = inside_.load(std::memory_order_relaxed);
      if (now < 0) {
        inside_.wait(now, std::memory_order_relaxed);
      } else if (inside_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) {
        return;
      }
    }
  }
  static void leave() noexcept {
    if (--depth() == 0) inside_.fetch_sub(1, std::memory_order_release);
  }

 private:
  friend class fork_listener;

  static constexpr int closed = -1;

  [[nodiscard]] static int& depth() noexcept {
    static thread_local int mine = 0;
    return mine;
  }
  [[nodiscard]] static bool& closed_by_me() noexcept {
    static thread_local bool mine = false;
    return mine;
  }

  // A kernel that loads for ever must not stop fork() for ever: after ten seconds it goes on.
  static void prepare() noexcept {
    constexpr int max_tries = 100'000;
    constexpr ::timespec pause{0, 100'000};
    const int own = depth() > 0 ? 1 : 0;
    for (int i = 0; i < max_tries; ++i) {
      int expected = own;
      closed_by_me() = inside_.compare_exchange_strong(expected, closed, std::memory_order_acquire);
      if (closed_by_me()) return;
      ::nanosleep(&pause, nullptr);
    }
  }
  static void in_parent() noexcept {
    if (!closed_by_me()) return;
    closed_by_me() = false;
    open();
  }
  static inline void in_child() noexcept;

  static void open() noexcept {
    inside_.store(depth() > 0 ? 1 : 0, std::memory_order_release);
    inside_.notify_all();
  }

  inline static std::atomic<int> inside_{0};  // threads that hold locks, or closed
};

/// Calls a function in each child of fork(), as long as it lives. Its owner must not move.
class fork_listener {
 public:
  /// `in_child` is called before fork() returns in the child, on its only thread.
  fork_listener(void* owner, void (*in_child)(void*)) noexcept : owner_{owner}, in_child_{in_child} {
    fork_gate::enter();
    lock();
    next_ = first_;
    if (next_ != nullptr) next_->previous_ = this;
    first_ = this;
    unlock();
    fork_gate::leave();
  }
  fork_listener(const fork_listener&) = delete;
  fork_listener& operator=(const fork_listener&) = delete;
  ~fork_listener() {
    fork_gate::enter();
    lock();
    (previous_ != nullptr ? previous_->next_ : first_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    unlock();
    fork_gate::leave();
  }

 private:
  friend class fork_gate;

  static void lock() noexcept {
    while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true, std::memory_order_relaxed);
  }
  static void unlock() noexcept {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
  }

  void* owner_;
  void (*in_child_)(void*);
  fork_listener* previous_ = nullptr;
  fork_listener* next_ = nullptr;
  inline static fork_listener* first_ = nullptr;
  inline static std::atomic_flag taken_;  // guards the list
};

inline void fork_gate::in_child() noexcept {
  closed_by_me() = false;
  open();
  for (const fork_listener* listener = fork_listener::first_; listener != nullptr; listener = listener->next_)
    listener->in_child_(listener->owner_);
}

}  // namespace v0
}  // namespace switchyard
