// SPDX-License-Identifier: MIT
// Parsed entries of a file, kept as long as somebody uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Numbers of a file's entries, ascending.
using entry_list = std::vector<std::uint32_t>;

/// All of them.
[[nodiscard]] entry_list every_entry(std::size_t count);

namespace detail {

/// Contents of any type.
class entry_contents {
 public:
  /// Whether an entry is read for the first time.
  [[nodiscard]] bool is_first_read(std::uint32_t entry) const {
    return entry >= was_read_.size() || !was_read_[entry];
  }

  /// Null: nobody uses it any more, or it was never read.
  [[nodiscard]] std::shared_ptr<const void> find(const entry_list& entries);

  void keep(const entry_list& entries, const std::shared_ptr<const void>& content);

 private:
  std::vector<bool> was_read_;
  std::map<entry_list, std::weak_ptr<const void>> known_;
};

}  // namespace detail

/// Any thread may enter; one at a time parses.
template <class Content>
class entry_cache {
 public:
  /// What these entries say: as it was read before, or what `read()` returns.
  template <class Reader>
  [[nodiscard]] std::shared_ptr<const Content> get(const entry_list& entries, const Reader& read) {
    const std::scoped_lock lock{mutex_};
    if (auto known = known_.find(entries)) return std::static_pointer_cast<const Content>(std::move(known));
    std::shared_ptr<const Content> out = read();
    known_.keep(entries, out);
    return out;
  }

  /// Whether an entry is read for the first time. Inside `read()`.
  [[nodiscard]] bool is_first_read(std::uint32_t entry) const { return known_.is_first_read(entry); }

 private:
  switchyard::mutex mutex_;
  detail::entry_contents known_;  // guarded by mutex_
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/entry_cache_impl.hpp>
#endif
