// SPDX-License-Identifier: MIT
// What a launch wrote to the device's memory, page by page: to undo it, and to compare what it writes when it
// is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "memory.hpp"

namespace emulator {

class write_log {
 public:
  /// Keeps what the pages around these bytes hold, unless they are kept. To be called before the bytes are
  /// written. Returns what is kept around them. From any thread.
  range keep(const range& allocation, std::uintptr_t address, std::size_t bytes);

  /// Notes what the pages hold now: the result with which another is compared.
  void take_result();
  /// Makes the pages what they were before the first write.
  void undo();

  /// Where memory differs from the result.
  struct difference {
    range allocation;
    std::uintptr_t address = 0;  ///< of the first word of 4 bytes, or of less at the allocation's end
    std::uint32_t result = 0;    ///< what it holds
    std::uint32_t now = 0;
    std::size_t count = 0;  ///< of bytes that differ, in this allocation
  };
  [[nodiscard]] std::optional<difference> compare() const;

 private:
  struct page {
    range allocation;
    std::vector<std::byte> before;
    std::vector<std::byte> result;  ///< what it held before, where only a later run writes to it
  };

  std::mutex mutex_;
  std::map<std::uintptr_t, page> pages_;  ///< by address; the first and last of an allocation are shorter
};

}  // namespace emulator
