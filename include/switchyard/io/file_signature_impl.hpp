// SPDX-License-Identifier: MIT
// The bodies of file_signature.hpp.
#pragma once

#include <cerrno>
#include <string>
#include <sys/stat.h>

#include <switchyard/base/compiled.hpp>
#include <switchyard/io/file_signature.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION file_signature::file_signature(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    error_ = errno;
    return;
  }
  written_ns_ = nanoseconds(found.st_mtim);
  changed_ns_ = nanoseconds(found.st_ctim);
  size_ = found.st_size;
  inode_ = found.st_ino;
  device_ = found.st_dev;
}

}  // namespace v0
}  // namespace switchyard
