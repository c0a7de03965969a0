// SPDX-License-Identifier: MIT
#include "tune/supervise.hpp"

#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <switchyard/error.hpp>

#include "command.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

/// The parent of a process, or 0 if the process has ended.
[[nodiscard]] pid_t parent_of(const fs::path& process) {
  // A process that ends meanwhile makes reading fail with ESRCH, on which a stream would throw.
  const int file = ::open((process / "stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 1024> buffer{};
  ssize_t got = 0;
  do {
    got = ::read(file, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  ::close(file);
  const std::string text{buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  // "7 (any name) S 1 ...": the name may hold anything, parentheses too.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || text.size() < name_end + 5) return 0;
  return std::atoi(text.c_str() + name_end + 4);
}

[[nodiscard]] std::vector<pid_t> children() {
  std::vector<pid_t> out;
  std::error_code problem;
  fs::directory_iterator at{"/proc", problem};
  for (const fs::directory_iterator end; !problem && at != end; at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    if (parent_of(at->path()) == ::getpid()) out.push_back(std::atoi(name.c_str()));
  }
  return out;
}

/// Children of killed processes become children of this one, their nearest subreaper, and are killed next.
void end_descendants() {
  constexpr int max_generations = 1000;  // something that multiplies faster cannot be caught
  for (int i = 0; i < max_generations; ++i) {
    const std::vector<pid_t> all = children();
    if (all.empty()) return;
    for (const pid_t child : all) ::kill(child, SIGKILL);
    for (const pid_t child : all) {
      while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
}

[[nodiscard]] int wait_for(pid_t worker, const sigset_t& signals) {
  for (;;) {
    siginfo_t details{};
    if (::sigwaitinfo(&signals, &details) == SIGTERM) ::kill(worker, SIGKILL);
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == worker) return status;
    }
  }
}

[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    std::signal(number, SIG_DFL);  // NOLINT(cert-err33-c): SIGKILL needs none
    sigset_t all;
    ::sigemptyset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::raise(number);
  }
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : status_error);
}

}  // namespace

void split_off_worker(int requests, int answers) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = ::getpid();
  const pid_t worker = ::fork();
  if (worker < 0) {
    throw sy::driver_error{sy::error_code::driver_failed,
                           "the process that measures: fork: " + std::generic_category().message(errno) +
                               "; end other processes, or raise the limit of processes (ulimit -u)"};
  }
  if (worker == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(status_error);
    return;
  }
  std::signal(SIGINT, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for this signal
  ::close(requests);
  ::close(answers);
  const int status = wait_for(worker, signals);
  end_descendants();
  end_as(status);
}

}  // namespace tool
