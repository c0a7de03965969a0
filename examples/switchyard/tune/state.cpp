// SPDX-License-Identifier: MIT
#include "tune/state.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace tool {

namespace {

constexpr std::array all_limits{std::pair{RLIMIT_AS, "RLIMIT_AS"},
                                std::pair{RLIMIT_CORE, "RLIMIT_CORE"},
                                std::pair{RLIMIT_CPU, "RLIMIT_CPU"},
                                std::pair{RLIMIT_DATA, "RLIMIT_DATA"},
                                std::pair{RLIMIT_FSIZE, "RLIMIT_FSIZE"},
                                std::pair{RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"},
                                std::pair{RLIMIT_NOFILE, "RLIMIT_NOFILE"},
                                std::pair{RLIMIT_NPROC, "RLIMIT_NPROC"},
                                std::pair{RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING"},
                                std::pair{RLIMIT_STACK, "RLIMIT_STACK"}};

/// The content of a file in /proc; empty if it cannot be read, for example because its thread has ended.
[[nodiscard]] std::string read_proc(const char* path) {
  std::string out;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return out;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  return out;
}

/// The value of a line "name:\tvalue"; empty where there is none.
[[nodiscard]] std::string value_of(const std::string& text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return {};
  const std::size_t begin = text.find_first_not_of(" \t", at + name.size());
  return begin == std::string::npos ? std::string{} : text.substr(begin, text.find('\n', begin) - begin);
}

/// Whether a mask in hexadecimal has bits that another one lacks. A starting thread blocks all signals for a
/// moment, so fewer bits mean nothing.
[[nodiscard]] bool blocks_more(const std::string& mask, const std::string& than) {
  const auto bits = [](const std::string& text) { return std::strtoull(text.c_str(), nullptr, 16); };
  return (bits(mask) & ~bits(than)) != 0;
}

[[nodiscard]] std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? std::string{"unlimited"} : std::to_string(value);
}

}  // namespace

process_state process_state::now() {
  process_state out;
  for (const auto& [which, name] : all_limits) {
    rlimit found{};
    if (::getrlimit(which, &found) != 0) continue;
    out.values_[name] = limit_text(found.rlim_cur);
    out.values_[std::string{name} + "'s maximum"] = limit_text(found.rlim_max);
  }
  constexpr std::array timers{std::pair{ITIMER_REAL, "ITIMER_REAL"},
                              std::pair{ITIMER_VIRTUAL, "ITIMER_VIRTUAL"},
                              std::pair{ITIMER_PROF, "ITIMER_PROF"}};
  for (const auto& [which, name] : timers) {
    itimerval found{};
    if (::getitimer(which, &found) != 0) continue;
    const bool runs = found.it_value.tv_sec != 0 || found.it_value.tv_usec != 0;
    out.values_[name] = runs ? "running" : "stopped";
  }
  const std::string made = read_proc("/proc/self/timers");
  std::size_t count = 0;
  for (std::size_t at = made.find("ID:"); at != std::string::npos; at = made.find("ID:", at + 1)) ++count;
  out.values_["the number of its timers"] = std::to_string(count);
  std::error_code problem;
  struct stat folder {};
  if (::stat(".", &folder) == 0) out.place_ = {folder.st_dev, folder.st_ino};
  out.folder_ = fs::read_symlink("/proc/self/cwd", problem).string();
  out.values_["the umask"] = value_of(read_proc("/proc/self/status"), "Umask:");
  fs::directory_iterator at{"/proc/self/task", problem};
  for (const fs::directory_iterator end; !problem && at != end; at.increment(problem)) {
    std::string mask = value_of(read_proc((at->path() / "status").c_str()), "SigBlk:");
    if (!mask.empty()) out.masks_.emplace(at->path().filename().string(), std::move(mask));
  }
  return out;
}

std::string process_state::changed_since(const process_state& before) const {
  const auto text = [](const std::string& name, const std::string& then, const std::string& now) {
    return name + " was " + then + ", now " + now;
  };
  for (const auto& [name, value] : before.values_) {
    const auto found = values_.find(name);
    // If a value cannot be read, for example for lack of descriptors, another value shows why.
    if (found != values_.end() && !found->second.empty() && found->second != value)
      return text(name, value, found->second);
  }
  if (place_ != before.place_) return text("the working folder", before.folder_, folder_);
  for (const auto& [thread, mask] : before.masks_) {
    const auto found = masks_.find(thread);
    if (found != masks_.end() && blocks_more(found->second, mask))
      return text("the mask of blocked signals", mask, found->second);
  }
  return {};
}

bool process_state::has_more_threads_than(const process_state& before) const {
  return std::any_of(masks_.begin(), masks_.end(),
                     [&before](const auto& mask) { return !before.masks_.contains(mask.first); });
}

}  // namespace tool
