// SPDX-License-Identifier: MIT
// The bodies of code_counts.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/code_counts.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD std::vector<counted_code> code_counts::read() const {
  std::vector<counted_code> out;
  for (std::size_t slot = 0; slot < by_slot_.size(); ++slot) {
    const std::uint64_t count = by_slot_[slot].load(std::memory_order_relaxed);
    const std::size_t code = slot == 0 ? 0 : 100 * (slot / in_hundred + 1) + slot % in_hundred;
    if (count > 0) out.push_back({static_cast<int>(code), count});
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
