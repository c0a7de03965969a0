// SPDX-License-Identifier: MIT
#include "mapped_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace llm {
namespace {

/// Closes a file at the end of a scope.
class open_file {
 public:
  explicit open_file(const std::string& path) : descriptor_{::open(path.c_str(), O_RDONLY | O_CLOEXEC)} {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail_to_map(const std::string& path, const std::string& reason) {
  throw std::runtime_error{path + ": " + reason};
}

[[nodiscard]] std::string last_error() {
  return std::generic_category().message(errno);
}

}  // namespace

mapped_file::mapped_file(const std::string& path) {
  const open_file file{path};
  if (file.descriptor() < 0) fail_to_map(path, "cannot be opened: " + last_error() + ". Check the path");
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) {
    fail_to_map(path, "its size cannot be read: " + last_error());
  }
  if (S_ISDIR(status.st_mode)) fail_to_map(path, "is a folder. Name a file in it");
  if (!S_ISREG(status.st_mode)) fail_to_map(path, "is not a regular file, and only those can be mapped");
  if (status.st_size == 0) fail_to_map(path, "is empty. Copy or download it again");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (start == MAP_FAILED) {  // NOLINT(cppcoreguidelines-pro-type-cstyle-cast): the system's macro
    fail_to_map(path, "its " + std::to_string(size) + " bytes cannot be mapped: " + last_error());
  }
  bytes_ = {static_cast<const std::byte*>(start), size};
}

mapped_file::mapped_file(mapped_file&& other) noexcept : bytes_{std::exchange(other.bytes_, {})} {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace llm
