// SPDX-License-Identifier: MIT
// A store of releases, of which one is current:
//
//   STORE/current -> versions/00000012     a root for catalogs: SWITCHYARD_PATH=STORE/current
//   STORE/versions/00000012/               tables/, kernels/, release.json, and .sig beside what is signed
//   STORE/.lock                            one writer at a time
//
// A release becomes current by one rename of a link, after its files are on the disk. A killed writer leaves
// either a folder whose name begins with a dot, which the next writer removes, or a complete release that is
// not current.
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

  /// The current release's serial number; 0 if there is none.
  [[nodiscard]] std::int64_t current() const;

  [[nodiscard]] std::filesystem::path folder_of(std::int64_t serial) const;

  /// Copies tables/ and kernels/ of a root into a new release, makes it current, and removes all releases but
  /// the newest `keep`, including the current one and the one before. `key` may be null. Returns the serial.
  /// Throws file_error; the current release then stays current.
  std::int64_t publish(const std::filesystem::path& root, provenance from, const signing_key* key,
                       std::size_t keep);

  /// Verifies another release and makes it current; 0 means the newest before the current one. Returns its
  /// serial. Throws file_error if there is none, or if it is damaged.
  std::int64_t roll_back(std::int64_t serial, const signing_key* key);

  /// What is wrong with a release; empty if nothing is.
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
