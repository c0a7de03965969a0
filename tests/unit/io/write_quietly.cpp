// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <switchyard/io/write_quietly.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>

#include "../sample_operator.hpp"
#include "../temporary.hpp"

using namespace switchyard;

namespace quiet {

/// The writing end of a pipe that nobody reads.
int unread_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  ::close(ends[0]);
  return ends[1];
}

bool is_pending(int signal) {
  ::sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, signal) == 1;
}

}  // namespace quiet

TEST_CASE("writing to a pipe that nobody reads is an error, and leaves signals as they were") {
  const int file = quiet::unread_pipe();
  ::sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  REQUIRE(::sigismember(&before, SIGPIPE) == 0);  // by default it ends the process
  errno = 0;
  CHECK(write_quietly(file, "x", 1) == -1);
  CHECK(errno == EPIPE);
  CHECK_FALSE(quiet::is_pending(SIGPIPE));
  ::sigset_t after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  CHECK(::sigismember(&after, SIGPIPE) == 0);
  ::close(file);
}

TEST_CASE("a write beyond the largest file size is an error") {
  const temporary_folder folder;
  const int file = ::open((folder / "f").c_str(), O_WRONLY | O_CREAT, 0600);
  ::rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::rlimit small = before;
  small.rlim_cur = 4;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const ::ssize_t first = write_quietly(file, "12345678", 8);
  const ::ssize_t second = write_quietly(file, "x", 1);
  const int why = errno;
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(first == 4);
  CHECK(second == -1);
  CHECK(why == EFBIG);
  CHECK_FALSE(quiet::is_pending(SIGXFSZ));
  ::close(file);
}

TEST_CASE("the log and the recorder stop when the reader of their pipe leaves, and say so once") {
  const temporary_folder folder;
  const int said = ::open((folder / "said").c_str(), O_WRONLY | O_CREAT, 0600);
  const int saved = ::dup(2);
  ::dup2(said, 2);
  {
    switchyard::log lines{debug_level::choices, false, quiet::unread_pipe(), &write_quietly};
    recorder problems{quiet::unread_pipe(), &write_quietly};
    for (int i = 0; i < 3; ++i) {
      lines.line("a");
      problems.note(sample::description(), {}, sample::problem({}), 1);
    }
  }
  ::dup2(saved, 2);
  ::close(saved);
  ::close(said);
  CHECK(slurp(folder / "said") ==
        "switchyard: warning: SWITCHYARD_DEBUG_FILE: its pipe has no reader: nothing more is logged\n"
        "switchyard: warning: SWITCHYARD_RECORD: its pipe has no reader: calls are no longer recorded\n");
}
