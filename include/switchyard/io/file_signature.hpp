// SPDX-License-Identifier: MIT
// Tells versions of a file apart without reading it: by times, size and inode.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

class file_signature {
 public:
  /// Nothing is there, as far as is known.
  file_signature() = default;
  explicit file_signature(const std::string& path);

  [[nodiscard]] bool is_gone() const noexcept { return error_ == ENOENT || error_ == ENOTDIR; }
  /// Why nothing can be said of the file; 0 where something can.
  [[nodiscard]] int obstacle() const noexcept { return is_gone() ? 0 : error_; }

  friend bool operator==(const file_signature&, const file_signature&) = default;

 private:
  [[nodiscard]] static std::int64_t nanoseconds(const ::timespec& time) noexcept {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }

  int error_ = 0;
  std::int64_t written_ns_ = 0;
  std::int64_t changed_ns_ = 0;  // a program cannot set this one
  std::int64_t size_ = -1;
  std::uint64_t inode_ = 0;
  std::uint64_t device_ = 0;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/file_signature_impl.hpp>
#endif
