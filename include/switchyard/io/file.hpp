// SPDX-License-Identifier: MIT
// Reads files as bytes, whole or the beginning first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// A file that is open: what is read later is of the same version, also where another one took its name.
class opened_file {
 public:
  /// Throws file_error: unreadable_file, or file_too_large before anything is read.
  opened_file(std::string path, std::size_t limit);
  opened_file(const opened_file&) = delete;
  opened_file& operator=(const opened_file&) = delete;
  ~opened_file();

  /// Reads on until `bytes` holds the file's first `most` bytes, or all. Throws file_error: unreadable_file.
  void read_on(std::string& bytes, std::size_t most = SIZE_MAX) const;

 private:
  explicit opened_file(std::string path);

  [[noreturn]] void fail(const char* problem) const;

  std::string path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

/// Reads a whole file. Throws as opened_file does.
[[nodiscard]] std::string read_file(const std::string& path, std::size_t limit);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/file_impl.hpp>
#endif
