// SPDX-License-Identifier: MIT
// The bodies of warning_filter.hpp.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/warning_filter.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void warning_filter::forget(const std::string& path) {
  const std::scoped_lock lock{mutex_};
  of_files_.erase(path);
}

SWITCHYARD_COLD void warning_filter::add(const warnings& warned, const std::string& path) {
  const std::scoped_lock lock{mutex_};
  std::set<std::string>& said = of_files_[path];
  for (const group_of_same& same : group_same(warned.messages, path)) {
    if (said.size() >= max_known || !said.insert(same.kind).second) continue;
    warn_(same.first + (same.more == 0 ? std::string{}
                                       : " (the same in " + std::to_string(same.more) +
                                             (same.more == 1 ? " more entry)" : " more entries)")));
  }
  if (warned.left_out > 0) warn_(path + ": " + std::to_string(warned.left_out) + " more warnings");
}

SWITCHYARD_COLD void warning_filter::add_once(const std::vector<std::string>& warned) {
  const std::scoped_lock lock{mutex_};
  for (const std::string& message : warned) {
    if (known_.size() < max_known && known_.insert(message).second) warn_(message);
  }
}

SWITCHYARD_COLD void warning_filter::add_shared(const std::string& reader, const std::string& message) {
  const std::scoped_lock lock{mutex_};
  if (shared_.size() == max_known && !shared_.contains(message)) return warn_(message);
  said_times& times = shared_[message];
  const std::size_t mine = ++times.by_reader[reader];
  if (mine <= times.in_all) return;
  warn_(message);
  times.in_all = mine;
}

}  // namespace v0
}  // namespace switchyard
