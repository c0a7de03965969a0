// Blobs that were missing or cut off when a variant was to be loaded: whether they are there by now.
//
// A blob that is not the one that its manifest pins is read again only when the file changes. One thread at a
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/file.hpp>
#include <switchyard/base/file_signature.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/module_store.hpp>

namespace switchyard {
inline namespace v0 {

class late_blobs {
 public:
  /// Whether every blob of at least one of these variants is the pinned one now. Adds the paths of such
  /// variants' blobs to `arrived`.
  [[nodiscard]] bool look(const std::vector<const variant*>& waiting, std::vector<std::string>& arrived) {
    std::map<blob, state> looked_at;  // what nobody waits for any more is forgotten
    bool any = false;
    for (const variant* const each : waiting) {
      bool all = true;
      for (const launch& of : each->launches) all = (of.is_fill || is_pinned(of, looked_at)) && all;
      if (!all) continue;
      any = true;
      for (const launch& of : each->launches) {
        if (!of.is_fill && std::find(arrived.begin(), arrived.end(), of.blob) == arrived.end())
          arrived.push_back(of.blob);
      }
    }
    known_ = std::move(looked_at);
    return any;
  }

 private:
  using blob = std::pair<std::string, std::string>;  // its path and its hash
  struct state {
    file_signature seen;
    bool is_pinned = false;
  };

  [[nodiscard]] bool is_pinned(const launch& of, std::map<blob, state>& looked_at) const {
    const auto [place, is_new] = looked_at.try_emplace(blob{of.blob, of.sha256});
    if (!is_new) return place->second.is_pinned;
    state fresh{file_signature{of.blob}};  // before the content: a change meanwhile shows next time
    const auto before = known_.find(place->first);
    if (before != known_.end() && before->second.seen == fresh.seen) {
      fresh.is_pinned = before->second.is_pinned;
    } else if (!fresh.seen.is_gone()) {
      fresh.is_pinned = has_content(of);
    }
    place->second = fresh;
    return fresh.is_pinned;
  }

  [[nodiscard]] static bool has_content(const launch& of) {
    try {
      const std::string bytes = read_file(of.blob, max_blob_bytes);
      return sha256(std::as_bytes(std::span{bytes})) == of.sha256;
    } catch (const file_error&) {
      return false;
    }
  }

  std::map<blob, state> known_;
};

}  // namespace v0
}  // namespace switchyard
