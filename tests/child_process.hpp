// SPDX-License-Identifier: MIT
// Children of fork() that tests make.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace test {

/// The exit status of a child that runs `work`; -1: it did not end within twenty seconds, or was killed.
template <class Work>
[[nodiscard]] int status_of_child(const Work& work) {
  const ::pid_t child = ::fork();
  if (child == 0) std::_Exit(work());
  for (int i = 0; i < 20'000; ++i) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

}  // namespace test
