// SPDX-License-Identifier: MIT
// A manifest on disk. Its variants are parsed when a problem of their type is first asked for.
//
// Immutable, except for a cache of parsed entries. Any thread may read.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

class manifest_file {
 public:
  /// A file of which only its path and target are needed, and known.
  manifest_file(std::string path, switchyard::target of);

  /// Throws file_error for the file as a whole. `path` names it in messages; blobs lie in its folder.
  manifest_file(std::string text, const std::string& path, const operator_description& op, warnings& warned);

  [[nodiscard]] const std::string& path() const noexcept { return head_.path; }
  [[nodiscard]] const switchyard::target& target() const noexcept { return head_.target; }
  [[nodiscard]] bool is_read() const noexcept { return file_.has_value(); }
  /// Only if is_read().
  [[nodiscard]] const outlined_file& outline() const noexcept { return *file_; }

  /// The manifest with these of its variants; shared with earlier readers of the same ones. Variants that
  /// cannot be read become warnings, once. The file is read.
  [[nodiscard]] std::shared_ptr<const manifest> read(const entry_list& entries, warnings& warned) const;

  /// The manifest with all its variants. The file is read.
  [[nodiscard]] std::shared_ptr<const manifest> read_all(warnings& warned) const {
    return read(every_entry(file_->entries().size()), warned);
  }

  /// Whether a variant has this id, also in a file that is not read.
  [[nodiscard]] bool has_variant(const std::string& id) const;

 private:
  /// Adds the conditions on arguments that variants require, before a problem is looked at. Of most files,
  /// none names an argument, and no entry is parsed.
  void find_conditions(const json_place& whole) const;

  static void add_ids(const outlined_file& of, std::set<std::string>& to);

  const operator_description* op_ = nullptr;
  std::optional<outlined_file> file_;
  manifest head_;
  mutable entry_cache<manifest> known_;
  mutable switchyard::mutex ids_mutex_;
  mutable bool has_ids_ = false;  // guarded by ids_mutex_, as what follows
  mutable std::set<std::string> ids_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/manifest_file_impl.hpp>
#endif
