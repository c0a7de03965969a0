// SPDX-License-Identifier: MIT
// A tuning table on disk. Its groups of rows are parsed when a problem of their type is first asked for.
//
// Immutable, except for a cache of parsed entries. Any thread may read.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

class table_file {
 public:
  /// A file of which only its path and its device's backend are needed, and known.
  table_file(std::string path, std::string backend);

  /// Throws file_error for the file as a whole. `path` names it in messages.
  table_file(std::string text, const std::string& path, const operator_description& op, warnings& warned);

  [[nodiscard]] const std::string& path() const noexcept { return head_.path; }
  /// The table without its rows.
  [[nodiscard]] const table& head() const noexcept { return head_; }
  [[nodiscard]] bool is_read() const noexcept { return file_.has_value(); }
  /// Only if is_read().
  [[nodiscard]] const outlined_file& outline() const noexcept { return *file_; }

  /// The table with these of its groups; shared with earlier readers of the same ones. Groups and rows that
  /// cannot be read become warnings, once. The file is read.
  [[nodiscard]] std::shared_ptr<const table> read(const entry_list& entries, warnings& warned) const;

  /// The table with all its groups. The file is read.
  [[nodiscard]] std::shared_ptr<const table> read_all(warnings& warned) const {
    return read(every_entry(file_->entries().size()), warned);
  }

 private:
  const operator_description* op_ = nullptr;
  std::optional<outlined_file> file_;
  table head_;
  mutable entry_cache<table> known_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/table_file_impl.hpp>
#endif
