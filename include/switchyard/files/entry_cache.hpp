// SPDX-License-Identifier: MIT
// Parsed entries of a file, kept as long as somebody uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Numbers of a file's entries, ascending.
using entry_list = std::vector<std::uint32_t>;

/// All of them.
[[nodiscard]] entry_list every_entry(std::size_t count);

/// Any thread may enter; one at a time parses.
template <class Content>
class entry_cache {
 public:
  /// What these entries say: as it was read before, or what `read()` returns.
  template <class Reader>
  [[nodiscard]] std::shared_ptr<const Content> get(const entry_list& entries, const Reader& read) {
    const std::scoped_lock lock{mutex_};
    if (const auto found = known_.find(entries); found != known_.end()) {
      if (auto out = found->second.lock()) return out;
    }
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<const Content> out = read();
    if (!entries.empty() && was_read_.size() <= entries.back())
      was_read_.resize(std::size_t{entries.back()} + 1);
    known_.insert_or_assign(entries, out);
    for (const std::uint32_t index : entries) was_read_[index] = true;  // nothing fails from here on
    return out;
  }

  /// Whether an entry is read for the first time. Inside `read()`.
  [[nodiscard]] bool is_first_read(std::uint32_t entry) const {
    return entry >= was_read_.size() || !was_read_[entry];
  }

 private:
  switchyard::mutex mutex_;
  std::vector<bool> was_read_;  // guarded by mutex_, as what follows
  std::map<entry_list, std::weak_ptr<const Content>> known_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/entry_cache_impl.hpp>
#endif
