// SPDX-License-Identifier: MIT
// The bodies of write_file.hpp.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <climits>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/write_file.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Writes a file beside the one that it takes the place of.
class file_replacement {
 public:
  explicit file_replacement(const std::string& path) : path_{path}, target_{path} {
    follow_links();
    const std::size_t slash = target_.rfind('/');
    folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : target_.substr(0, slash);
    struct stat found {};
    exists_ = ::lstat(target_.c_str(), &found) == 0;
    if (!exists_ && errno != ENOENT) fail("cannot be examined");
    if (exists_ && !S_ISREG(found.st_mode)) {
      throw file_error{error_code::unreadable_file,
                       path_ + ": is not a regular file, so it is not replaced; name another file"};
    }
    mode_ = found.st_mode & 0777U;
    open_fresh();
  }
  file_replacement(const file_replacement&) = delete;
  file_replacement& operator=(const file_replacement&) = delete;
  ~file_replacement() { discard(); }

  void write(std::string_view rest) {
    while (!rest.empty()) {
      const ssize_t written = ::write(file_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("cannot be written");
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    if (exists_ && ::fchmod(file_, mode_) != 0) fail("its mode cannot be kept");
    if (::fsync(file_) != 0) fail("cannot be written");
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0) fail("cannot be written");
    if (::rename(fresh_.c_str(), target_.c_str()) != 0) fail("cannot be replaced");
    fresh_.clear();
    sync_folder();
  }

 private:
  [[noreturn]] void fail(const char* problem) {
    const std::string why = std::generic_category().message(errno);
    discard();
    throw file_error{error_code::unreadable_file, path_ + ": " + problem + ": " + why};
  }

  void discard() noexcept {
    if (file_ >= 0) ::close(file_);
    if (!fresh_.empty()) ::unlink(fresh_.c_str());
    file_ = -1;
    fresh_.clear();
  }

  /// A link stays a link: what it leads to is replaced.
  void follow_links() {
    constexpr int most = 40;  // as the kernel has it
    std::string to(PATH_MAX, '\0');
    for (int i = 0;; ++i) {
      const ssize_t length = ::readlink(target_.c_str(), to.data(), to.size());
      if (length < 0) return;  // no link, or nothing yet
      if (i == most) {
        errno = ELOOP;
        fail("cannot be written");
      }
      const std::string next = to.substr(0, static_cast<std::size_t>(length));
      const std::size_t slash = target_.rfind('/');
      target_ =
          next.starts_with('/') || slash == std::string::npos ? next : target_.substr(0, slash + 1) + next;
    }
  }

  /// A name that no other writer has, of this process or another; whatever is planted under it is left alone.
  void open_fresh() {
    static std::atomic<std::uint64_t> count{0};
    constexpr int attempts = 1000;
    for (int i = 0; i < attempts; ++i) {
      fresh_ = folder_ + "/.switchyard-" + std::to_string(::getpid()) + "-" +
               std::to_string(count.fetch_add(1, std::memory_order_relaxed)) + ".partial";
      // Until it has the old file's mode, nobody else may read it.
      file_ =
          ::open(fresh_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, exists_ ? 0600 : 0666);
      if (file_ >= 0) return;
      fresh_.clear();  // not ours to remove
      if (errno != EEXIST) break;
    }
    fail("cannot be written");
  }

  /// So that the new name outlasts a power failure. Some file systems cannot, and the content is there
  /// either way.
  void sync_folder() const noexcept {
    const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    ::fsync(folder);
    ::close(folder);
  }

  std::string path_;    ///< as it was asked for
  std::string target_;  ///< what links lead to
  std::string folder_;
  std::string fresh_;  ///< empty: there is none to remove
  int file_ = -1;
  bool exists_ = false;
  mode_t mode_ = 0;
};

}  // namespace detail

SWITCHYARD_COLD void write_file(const std::string& path, std::string_view text) {
  detail::file_replacement fresh{path};
  fresh.write(text);
  fresh.commit();
}

}  // namespace v0
}  // namespace switchyard
