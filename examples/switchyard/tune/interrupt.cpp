// SPDX-License-Identifier: MIT
#include "tune/interrupt.hpp"

#include <csignal>
#include <unistd.h>

namespace tool {

namespace {

std::atomic<bool> was_interrupted{false};
std::atomic<int> signal_number{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  // A second signal of the same kind ends the program at once; the journal loses nothing.
  if (was_interrupted.exchange(true)) ::_exit(128 + number);
  signal_number = number;
}

}  // namespace

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = &note_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): a worker that died shows in the write
}

const std::atomic<bool>& interrupted() noexcept {
  return was_interrupted;
}

int status_interrupted() noexcept {
  return 128 + signal_number;
}

}  // namespace tool
