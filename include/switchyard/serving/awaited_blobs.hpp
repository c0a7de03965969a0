// SPDX-License-Identifier: MIT
// Watches blobs that were missing or cut off when a variant needed them, and says when they are complete.
//
// A blob with another hash than its manifest pins is read again only when the file changes. One thread at a
// time.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/io/file_signature.hpp>

namespace switchyard {
inline namespace v0 {

class awaited_blobs {
 public:
  /// Whether every blob of at least one of these variants is the pinned one now. Adds to `arrived` the paths
  /// of blobs that were found to be so by this look, where nothing more is missing of a variant.
  [[nodiscard]] bool look(const std::vector<const variant*>& waiting, std::vector<std::string>& arrived);

 private:
  using blob = std::pair<std::string, std::string>;  // its path and its hash
  struct state {
    file_signature seen;
    bool is_pinned = false;
    bool is_new = false;  // it is pinned, and was not when it was looked at before
  };

  [[nodiscard]] const state& state_of(const launch& of, std::map<blob, state>& looked_at) const;

  [[nodiscard]] static bool has_content(const launch& of);

  std::map<blob, state> known_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/awaited_blobs_impl.hpp>
#endif
