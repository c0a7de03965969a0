// SPDX-License-Identifier: MIT
// Counts what the whole program takes from the heap through operator new, and lets it fail.
#pragma once

#include <cstdint>

namespace test {

/// Allocations made so far by the calling thread.
[[nodiscard]] std::uint64_t allocations_of_this_thread() noexcept;

/// Bytes of the heap that the program holds; 0 where a sanitizer has a heap of its own.
[[nodiscard]] std::int64_t live_bytes() noexcept;

/// Lets operator new find no memory, as long as the object lives: the nothrow form returns null. One at a
/// time.
class failing_allocations {
 public:
  enum class threads : bool { mine, others };
  enum class until : bool { next, end };  ///< the one allocation, or all from it on until the object's end

  /// Of those that these threads make from now on, the one numbered `nth`, from 1 on, is the first to fail.
  failing_allocations(std::uint64_t nth, threads of, until last) noexcept;
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
  ~failing_allocations();

  /// Whether an allocation failed.
  [[nodiscard]] bool was_reached() const noexcept;
};

}  // namespace test
