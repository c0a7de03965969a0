// SPDX-License-Identifier: MIT
// How often each error number occurred. Any thread may count and read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// How often an error number occurred.
struct counted_code {
  int code = 0;
  std::uint64_t count = 0;
};

/// Counts by error number.
class code_counts {
 public:
  void count(int code) noexcept { by_slot_[slot_of(code)].fetch_add(1, std::memory_order_relaxed); }
  /// Those that are not 0, by number.
  [[nodiscard]] std::vector<counted_code> read() const;

 private:
  // Numbers have three digits, of which the first is 1 to 3; slot 0 has all others.
  static constexpr std::size_t in_hundred = 32;

  [[nodiscard]] static constexpr std::size_t slot_of(int code) noexcept {
    const int rest = code % 100;
    if (code < 100 || code >= 400 || rest >= static_cast<int>(in_hundred)) return 0;
    return static_cast<std::size_t>(code / 100 - 1) * in_hundred + static_cast<std::size_t>(rest);
  }

  std::array<std::atomic<std::uint64_t>, 3 * in_hundred> by_slot_{};
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/code_counts_impl.hpp>
#endif
