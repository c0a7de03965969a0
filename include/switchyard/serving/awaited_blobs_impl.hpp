// SPDX-License-Identifier: MIT
// The bodies of awaited_blobs.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/file_signature.hpp>
#include <switchyard/serving/awaited_blobs.hpp>
#include <switchyard/serving/module_store.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD bool awaited_blobs::look(const std::vector<const variant*>& waiting,
                                         std::vector<std::string>& arrived) {
  std::map<blob, state> looked_at;  // what nobody waits for any more is forgotten
  bool any = false;
  for (const variant* const awaited : waiting) {
    bool all = true;
    for (const launch& of : awaited->launches) all = (of.is_fill || state_of(of, looked_at).is_pinned) && all;
    if (!all) continue;
    any = true;
    for (const launch& of : awaited->launches) {
      if (!of.is_fill && state_of(of, looked_at).is_new &&
          std::find(arrived.begin(), arrived.end(), of.blob) == arrived.end())
        arrived.push_back(of.blob);
    }
  }
  known_ = std::move(looked_at);
  return any;
}

SWITCHYARD_COLD const awaited_blobs::state& awaited_blobs::state_of(const launch& of,
                                                                    std::map<blob, state>& looked_at) const {
  const auto [place, is_first] = looked_at.try_emplace(blob{of.blob, of.sha256});
  if (!is_first) return place->second;
  state fresh{file_signature{of.blob}};  // before the content: a change meanwhile shows next time
  const auto before = known_.find(place->first);
  if (before != known_.end() && before->second.seen == fresh.seen) {
    fresh.is_pinned = before->second.is_pinned;
  } else if (!fresh.seen.is_gone()) {
    try {
      fresh.is_pinned = fresh.is_new = has_content(of);
    } catch (const file_error& problem) {
      if (problem.cause() != 0) fresh.seen = {};  // the system's fault, not the file's: read next time
    }
  }
  return place->second = fresh;
}

SWITCHYARD_COLD bool awaited_blobs::has_content(const launch& of) {
  const std::string bytes = read_file(of.blob, max_blob_bytes);
  return sha256(std::as_bytes(std::span{bytes})) == of.sha256;
}

}  // namespace v0
}  // namespace switchyard
