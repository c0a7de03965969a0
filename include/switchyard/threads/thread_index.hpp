// SPDX-License-Identifier: MIT
// A small number for each live thread, an index into arrays of per-thread data.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// The index that threads share while they end, and when no memory is left for an index of their own.
inline constexpr unsigned shared_thread_index = 0;

namespace detail {

/// Hands out the lowest free index. Never destroyed: threads may end after static objects are gone.
class thread_indices {
 public:
  [[nodiscard]] static thread_indices& instance() noexcept {
    static auto& all = *new thread_indices;  // NOLINT(cppcoreguidelines-owning-memory): never destroyed
    return all;
  }

  [[nodiscard]] unsigned take() noexcept {
    const locked lock{mutex_};
    for (unsigned index = shared_thread_index + 1; index < taken_.size(); ++index) {
      if (taken_[index]) continue;
      taken_[index] = true;
      return index;
    }
    try {
      if (taken_.empty()) taken_.push_back(true);  // the shared one
      taken_.push_back(true);
    } catch (const std::bad_alloc&) {
      return shared_thread_index;
    }
    return static_cast<unsigned>(taken_.size() - 1);
  }

  void give_back(unsigned index) noexcept {
    const locked lock{mutex_};
    if (index != shared_thread_index) taken_[index] = false;
  }

 private:
  mutex mutex_;
  std::vector<bool> taken_;
};

/// Gives the thread's index back when the thread ends; later calls on the thread get the shared one.
struct thread_index_holder {
  unsigned* index;
  ~thread_index_holder() {
    thread_indices::instance().give_back(*index);
    *index = shared_thread_index;
  }
};

[[gnu::noinline]] inline unsigned take_thread_index(unsigned& mine) noexcept {
  mine = thread_indices::instance().take();
  static thread_local const thread_index_holder holder{&mine};
  return mine;
}

}  // namespace detail

/// Stands for the index of a thread that has none yet.
inline constexpr unsigned no_thread_index = ~0U;

namespace detail {

[[nodiscard]] inline unsigned& thread_index_slot() noexcept {
  static thread_local unsigned mine = no_thread_index;  // trivial: reading it needs no initialisation guard
  return mine;
}

}  // namespace detail

/// The calling thread's index, or no_thread_index before its first call of thread_index.
[[nodiscard]] inline unsigned known_thread_index() noexcept {
  return detail::thread_index_slot();
}

/// The calling thread's index, which no other live thread of this program has. Lock-free after a thread's
/// first call. A shared library that hides its symbols counts for itself.
[[nodiscard]] inline unsigned thread_index() noexcept {
  unsigned& mine = detail::thread_index_slot();
  if (mine == no_thread_index) [[unlikely]]
    return detail::take_thread_index(mine);
  return mine;
}

}  // namespace v0
}  // namespace switchyard
