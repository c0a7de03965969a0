// Counts what the whole program takes from the heap through operator new.
#pragma once

#include <cstdint>

namespace test {

/// Allocations made so far by the calling thread.
[[nodiscard]] std::uint64_t allocations_of_this_thread() noexcept;

/// Bytes that the program holds.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace test
