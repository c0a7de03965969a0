// SPDX-License-Identifier: MIT
// The bodies of file.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION opened_file::opened_file(std::string path)
    : path_{std::move(path)}, descriptor_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {}

SWITCHYARD_FUNCTION opened_file::opened_file(std::string path, std::size_t limit)
    : opened_file{std::move(path)} {
  if (descriptor_ < 0) fail("cannot be opened");
  struct stat found {};
  if (::fstat(descriptor_, &found) != 0) fail("cannot be examined");
  if (!S_ISREG(found.st_mode))
    throw file_error{error_code::unreadable_file, path_ + ": is not a regular file"};
  size_ = static_cast<std::size_t>(found.st_size);
  if (size_ > limit) {
    throw file_error{error_code::file_too_large, path_ + ": has " + std::to_string(size_) +
                                                     " bytes; at most " + std::to_string(limit) +
                                                     " are read. Split it, or remove entries"};
  }
}

SWITCHYARD_FUNCTION opened_file::~opened_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SWITCHYARD_FUNCTION void opened_file::read_on(std::string& bytes, std::size_t most) const {
  std::size_t filled = bytes.size();
  bytes.resize(std::max(filled, std::min(size_, most)));
  while (filled < bytes.size()) {
    const ssize_t got = ::read(descriptor_, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read");
    if (got == 0) break;  // shortened meanwhile: what is missing shows when it is parsed or hashed
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
}

SWITCHYARD_FUNCTION void opened_file::fail(const char* problem) const {
  throw file_error{error_code::unreadable_file,
                   path_ + ": " + problem + ": " + std::generic_category().message(errno), errno};
}

SWITCHYARD_FUNCTION std::string read_file(const std::string& path, std::size_t limit) {
  std::string bytes;
  opened_file{path, limit}.read_on(bytes);
  return bytes;
}

}  // namespace v0
}  // namespace switchyard
