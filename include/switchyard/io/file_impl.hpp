// SPDX-License-Identifier: MIT
// The bodies of file.hpp.
#pragma once

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::string read_file(const std::string& path, std::size_t limit, std::size_t most) {
  const auto fail = [&path](const char* problem) {
    throw file_error{error_code::unreadable_file,
                     path + ": " + problem + ": " + std::generic_category().message(errno), errno};
  };
  struct descriptor {
    int number;
    ~descriptor() {
      if (number >= 0) ::close(number);
    }
  };
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail("cannot be opened");
  struct stat found {};
  if (::fstat(file.number, &found) != 0) fail("cannot be examined");
  if (!S_ISREG(found.st_mode))
    throw file_error{error_code::unreadable_file, path + ": is not a regular file"};
  const auto size = static_cast<std::size_t>(found.st_size);
  if (size > limit) {
    throw file_error{error_code::file_too_large, path + ": has " + std::to_string(size) + " bytes; at most " +
                                                     std::to_string(limit) +
                                                     " are read. Split it or thin it out"};
  }
  std::string bytes(size < most ? size : most, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read");
    if (got == 0) break;  // shortened meanwhile: what is missing shows when it is parsed or hashed
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace v0
}  // namespace switchyard
