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
  /// Whether every blob of at least one of these variants is the pinned one now. Adds to `arrived` the paths
  /// of blobs that were found to be so by this look, where nothing more is missing of a variant.
  [[nodiscard]] bool look(const std::vector<const variant*>& waiting, std::vector<std::string>& arrived) {
    std::map<blob, state> looked_at;  // what nobody waits for any more is forgotten
    bool any = false;
    for (const variant* const each : waiting) {
      bool all = true;
      for (const launch& of : each->launches) all = (of.is_fill || state_of(of, looked_at).is_pinned) && all;
      if (!all) continue;
      any = true;
      for (const launch& of : each->launches) {
        if (!of.is_fill && state_of(of, looked_at).is_new &&
            std::find(arrived.begin(), arrived.end(), of.blob) == arrived.end())
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
    bool is_new = false;  // it is pinned, and was not when it was looked at before
  };

  [[nodiscard]] const state& state_of(const launch& of, std::map<blob, state>& looked_at) const {
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

  [[nodiscard]] static bool has_content(const launch& of) {
    const std::string bytes = read_file(of.blob, max_blob_bytes);
    return sha256(std::as_bytes(std::span{bytes})) == of.sha256;
  }

  std::map<blob, state> known_;
};

}  // namespace v0
}  // namespace switchyard
