// SPDX-License-Identifier: MIT
// The bodies of entry_cache.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/entry_cache.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION entry_list every_entry(std::size_t count) {
  entry_list out(count);
  for (std::uint32_t i = 0; i < count; ++i) out[i] = i;
  return out;
}

namespace detail {

SWITCHYARD_FUNCTION std::shared_ptr<const void> entry_contents::find(const entry_list& entries) {
  if (const auto found = known_.find(entries); found != known_.end()) {
    if (auto out = found->second.lock()) return out;
  }
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  return nullptr;
}

SWITCHYARD_FUNCTION void entry_contents::keep(const entry_list& entries,
                                              const std::shared_ptr<const void>& content) {
  if (!entries.empty() && was_read_.size() <= entries.back())
    was_read_.resize(std::size_t{entries.back()} + 1);
  known_.insert_or_assign(entries, content);
  for (const std::uint32_t index : entries) was_read_[index] = true;  // nothing fails from here on
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
