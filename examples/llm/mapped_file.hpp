// SPDX-License-Identifier: MIT
// A file mapped for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace llm {

/// Move-only; unmaps at destruction. A file that is shortened while it is mapped ends the program with SIGBUS
/// when the missing part is read: replace files by renaming.
class mapped_file {
 public:
  mapped_file() = default;
  /// Maps a regular file of at least one byte. Throws std::runtime_error: the path, the reason, and what to
  /// do.
  explicit mapped_file(const std::string& path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  /// Starts at a page boundary. Valid until the object that holds the mapping is destroyed; moving keeps it.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace llm
