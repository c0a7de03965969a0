// SPDX-License-Identifier: MIT
// A pre-fork server in a process of its own: a catalog under watch, a dispatcher and the CPU device are
// static, other threads call and reload, and children call, reload and exit, which destroys them all.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;

/// Not destroyed by children, which would remove the folder.
const disk& files() {
  static const disk* const made = new disk;
  return *made;
}

/// The manifest's one variant is another one each time, so that a reload has something to do.
void put(int number) {
  files().put_manifest("stamp", {stamp_variant("v" + std::to_string(number), number)});
}

sy::catalog& served() {
  static sy::catalog catalog{[] {
    put(0);
    return files().options();
  }()};
  return catalog;
}

sy::dispatcher<stamp>& on() {
  static sy::dispatcher<stamp> dispatcher{served(), sy::device::host()};
  return dispatcher;
}

/// What a child exits with; 7 is right. The child's files are the parent's: it writes none.
int work_in_child() {
  ::alarm(30);  // a child that hangs is killed, and seen
  for (std::int64_t seqlen = 1; seqlen < 4; ++seqlen) {
    if (run(on(), {.seqlen = seqlen}) < 0) return 1;
  }
  (void)served().reload();
  served().watch(1ms);
  if (run(on(), {.seqlen = 1000}) < 0) return 2;
  sy::catalog own{files().options()};
  sy::dispatcher<stamp> made_here{own, sy::device::host()};
  if (run(made_here, {.seqlen = 5}) < 0) return 3;
  return 7;
}

/// Whether the child exited with 7.
bool has_ended_well(::pid_t child, int number) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return false;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) return true;
  std::printf("child %d %s %d\n", number, WIFEXITED(status) ? "exited with" : "was killed by signal",
              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return false;
}

}  // namespace

int main() {
  served().watch(1ms);
  (void)run(on(), {});
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  busy.emplace_back([&] {
    for (std::int64_t seqlen = 1; !stop; ++seqlen) (void)run(on(), {.seqlen = seqlen});
  });
  busy.emplace_back([&] {
    for (int number = 1; !stop; ++number) {
      put(number);
      (void)served().reload();
    }
  });
  bool is_right = true;
  for (int i = 0; i < 40 && is_right; ++i) {
    const ::pid_t child = ::fork();
    // Not by `return`, which would destroy `busy`: the child has none of its threads.
    if (child == 0) std::exit(work_in_child());  // NOLINT(concurrency-mt-unsafe): it is tested
    is_right = has_ended_well(child, i);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  std::filesystem::remove_all(files().root());
  return is_right ? 0 : 1;
}
