// SPDX-License-Identifier: MIT
// A store of releases, of which one is current:
//
//   STORE/current -> versions/00000012     a root for catalogs: SWITCHYARD_PATH=STORE/current
//   STORE/versions/00000012/               tables/, kernels/, release.json, and .sig beside what is signed
//   STORE/.lock                            one writer at a time
//
// What is current changes by one rename of a link, after everything that it leads to is on the disk. A writer
// that is killed leaves a folder that begins with a dot, which the next writer removes, or a whole release
// that is not current.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "publish/provenance.hpp"
#include "publish/signature.hpp"

namespace tool {

class release_store {
 public:
  /// For reading. Throws file_error unreadable_file where there is no store.
  explicit release_store(std::filesystem::path folder);

  /// Makes the folder where there is none.
  [[nodiscard]] static release_store make(const std::filesystem::path& folder);

  /// The serial numbers of the releases, sorted.
  [[nodiscard]] std::vector<std::int64_t> serials() const;

  /// The current release's; 0: there is none.
  [[nodiscard]] std::int64_t current() const;

  [[nodiscard]] std::filesystem::path folder_of(std::int64_t serial) const;

  /// Copies tables/ and kernels/ of a root into a new release and makes it current; then removes all but the
  /// newest `keep`, of which the current one and the one before count as two. `key` may be null. Returns the
  /// serial. Throws file_error, which leaves the current release current.
  std::int64_t publish(const std::filesystem::path& root, provenance from, const signing_key* key,
                       std::size_t keep);

  /// Makes another release current; 0: the newest one before the current. It is verified first. Returns its
  /// serial. Throws file_error where there is none, or where it is damaged.
  std::int64_t roll_back(std::int64_t serial, const signing_key* key);

  /// What is wrong with a release; empty: nothing is.
  [[nodiscard]] std::vector<std::string> verify(std::int64_t serial, const signing_key* key) const;

 private:
  /// Held while a store changes.
  class lock;

  void make_current(std::int64_t serial) const;

  /// Removes what killed writers left.
  void clean() const;

  void prune(std::size_t keep, std::int64_t before) const;

  std::filesystem::path folder_;
};

}  // namespace tool
