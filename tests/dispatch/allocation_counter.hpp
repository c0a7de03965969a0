// Counts what the whole program takes from the heap through operator new.
#pragma once

#include <cstdint>

namespace test {

/// Allocations made so far by the calling thread.
[[nodiscard]] std::uint64_t allocations_of_this_thread() noexcept;

/// Bytes of the heap that the program holds; 0 where a sanitizer has a heap of its own.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace test
