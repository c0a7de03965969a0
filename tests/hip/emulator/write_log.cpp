// SPDX-License-Identifier: MIT
#include "write_log.hpp"

#include <algorithm>
#include <cstring>

namespace emulator {

namespace {

constexpr std::uintptr_t page_bytes = 4096;

template <class Byte>
Byte* at(std::uintptr_t address) {
  return reinterpret_cast<Byte*>(address);
}

}  // namespace

range write_log::keep(const range& allocation, std::uintptr_t address, std::size_t bytes) {
  const range kept{std::max(allocation.begin, address / page_bytes * page_bytes),
                   std::min(allocation.end, (address + bytes + page_bytes - 1) / page_bytes * page_bytes)};
  const std::scoped_lock lock{mutex_};
  for (std::uintptr_t begin = kept.begin; begin < kept.end;) {
    const std::uintptr_t end = std::min(kept.end, begin / page_bytes * page_bytes + page_bytes);
    if (const auto [one, is_new] = pages_.try_emplace(begin); is_new) {
      one->second.allocation = allocation;
      one->second.before.assign(at<const std::byte>(begin), at<const std::byte>(end));
      one->second.result = one->second.before;
    }
    begin = end;
  }
  return kept;
}

void write_log::take_result() {
  for (auto& [begin, one] : pages_) std::memcpy(one.result.data(), at<const void>(begin), one.result.size());
}

void write_log::undo() {
  for (auto& [begin, one] : pages_) std::memcpy(at<void>(begin), one.before.data(), one.before.size());
}

std::optional<write_log::difference> write_log::compare() const {
  std::optional<difference> found;
  for (const auto& [begin, one] : pages_) {
    if (found && one.allocation.begin != found->allocation.begin) break;
    const auto* const now = at<const std::byte>(begin);
    if (std::memcmp(one.result.data(), now, one.result.size()) == 0) continue;
    for (std::size_t i = 0; i < one.result.size(); ++i) {
      if (one.result[i] == now[i]) continue;
      if (!found) {
        const std::size_t word = i - (begin + i) % 4;
        const std::size_t bytes = std::min<std::size_t>(4, one.result.size() - word);
        found = difference{.allocation = one.allocation, .address = begin + word};
        std::memcpy(&found->result, &one.result[word], bytes);
        std::memcpy(&found->now, now + word, bytes);
      }
      ++found->count;
    }
  }
  return found;
}

}  // namespace emulator
