// SPDX-License-Identifier: MIT
// The bodies of write_quietly.hpp.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <unistd.h>

#include <switchyard/base/compiled.hpp>
#include <switchyard/io/write_quietly.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD ::ssize_t write_quietly(int file, const void* bytes, std::size_t count) noexcept {
  ::sigset_t raised;
  ::sigemptyset(&raised);
  ::sigaddset(&raised, SIGPIPE);
  ::sigaddset(&raised, SIGXFSZ);
  ::sigset_t before;
  ::sigset_t pending;
  if (::pthread_sigmask(SIG_BLOCK, &raised, &before) != 0) return ::write(file, bytes, count);
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  const ::ssize_t written = ::write(file, bytes, count);
  const int why = written < 0 ? errno : 0;
  const int mine = why == EPIPE ? SIGPIPE : why == EFBIG ? SIGXFSZ : 0;
  if (mine != 0 && ::sigismember(&pending, mine) == 0) {
    ::sigset_t taken;
    ::sigemptyset(&taken);
    ::sigaddset(&taken, mine);
    constexpr ::timespec at_once{0, 0};
    while (::sigtimedwait(&taken, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (written < 0) errno = why;
  return written;
}

}  // namespace v0
}  // namespace switchyard
