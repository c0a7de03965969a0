// SPDX-License-Identifier: MIT
// Loads whose results have not arrived.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "kinds.hpp"

namespace emulator {

enum class arrival : std::uint8_t { vector, store, shared, scalar };

/// A result on its way. Until the wait that covers it, the registers hold garbage.
struct pending {
  arrival kind = arrival::store;
  std::uint16_t result = 0;
  std::uint8_t rows = 0;
  std::uint64_t exec = 0;
  std::uint32_t mask = ~0U;               ///< the bits of each register that are written
  std::array<row, 4> data;                ///< of vector registers
  std::array<std::uint32_t, 16> scalars;  ///< of scalar ones
};

/// In the order of issue. The memory of what has arrived serves what is issued later: a kernel has a load in
/// every few instructions.
class arrivals {
 public:
  /// One more, whose values are those of an earlier one.
  [[nodiscard]] pending& add(arrival kind, std::uint16_t result, std::uint8_t rows, std::uint64_t exec) {
    if (spare_.empty()) spare_.push_back(std::make_unique<pending>());
    waiting_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    pending& one = *waiting_.back();
    one.kind = kind;
    one.result = result;
    one.rows = rows;
    one.exec = exec;
    one.mask = ~0U;
    return one;
  }

  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

  [[nodiscard]] std::size_t count(arrival kind) const {
    return static_cast<std::size_t>(std::count_if(waiting_.begin(), waiting_.end(),
                                                  [kind](const auto& one) { return one->kind == kind; }));
  }

  /// Calls arrive(pending) for the oldest `count` that `is_meant`, and forgets them.
  template <class Predicate, class Function>
  void take(std::size_t count, Predicate is_meant, Function arrive) {
    auto kept = waiting_.begin();
    for (auto& one : waiting_) {
      if (count != 0 && is_meant(*one)) {
        --count;
        arrive(*one);
        spare_.push_back(std::move(one));
      } else {
        *kept++ = std::move(one);
      }
    }
    waiting_.erase(kept, waiting_.end());
  }

  void clear() {
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(spare_));
    waiting_.clear();
  }

 private:
  std::vector<std::unique_ptr<pending>> waiting_;
  std::vector<std::unique_ptr<pending>> spare_;
};

}  // namespace emulator
