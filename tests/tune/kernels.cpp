// SPDX-License-Identifier: MIT
// CPU kernels of the operator softmax, in f32: right ones, and one for every way to be of no use.
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernels_for_tests/export.hpp"

namespace {

using switchyard::host::block;

struct call {
  const float* x;
  float* out;
  std::int64_t rows, columns;
  float scale;
  std::int64_t x_stride, out_stride;
};

/// The right result for `factor` times the call's scale.
void softmax(call of, float factor = 1) {
  const float scale = of.scale * factor;
  for (std::int64_t row = 0; row < of.rows; ++row, of.x += of.x_stride, of.out += of.out_stride) {
    const float top = *std::max_element(of.x, of.x + of.columns) * scale;
    float sum = 0;
    for (std::int64_t c = 0; c < of.columns; ++c) sum += of.out[c] = std::exp(of.x[c] * scale - top);
    for (std::int64_t c = 0; c < of.columns; ++c) of.out[c] /= sum;
  }
}

template <void (*Compute)(call)>
void kernel(const block& /*at*/, const float* x, float* out, std::int64_t rows, std::int64_t columns,
            float scale, std::int64_t x_stride, std::int64_t out_stride) {
  Compute({x, out, rows, columns, scale, x_stride, out_stride});
}

void right(call of) {
  softmax(of);
}

/// Right, after a while: for tests that stop the tuner in between.
void slow(call of) {
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  softmax(of);
}

void crash(call /*of*/) {
  std::fputs("about to read where nothing is\n", stderr);
  std::raise(SIGSEGV);
}

void hang(call /*of*/) {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds{1});
}

void leave(call /*of*/) {
  std::_Exit(3);
}

/// Writes into the pipe that leads to the tuner, wherever it is.
void babble(call of) {
  softmax(of);
  for (int file = 3; file < 256; ++file) {
    [[maybe_unused]] const ssize_t written = ::write(file, "not JSON\n", 9);
  }
}

/// Leaves the last row out.
void partial(call of) {
  --of.rows;
  softmax(of);
}

void off(call of) {
  softmax(of, 1.001F);
}

/// One element of the whole is not a number.
void not_a_number(call of) {
  softmax(of);
  of.out[of.rows / 2 * of.out_stride + of.columns / 2] = std::numeric_limits<float>::quiet_NaN();
}

void overrun(call of) {
  softmax(of);
  of.out[(of.rows - 1) * of.out_stride + of.columns] = 0;
}

void spoil(call of) {
  softmax(of);
  const_cast<float*>(of.x)[0] = 0;
}

/// Right at first, and dies while it is timed.
void late(call of) {
  static int calls = 0;
  if (++calls > 20) std::abort();
  softmax(of);
}

/// Right while it is checked, wrong from then on.
void fading(call of) {
  static int calls = 0;
  softmax(of, ++calls > 3 ? 1.01F : 1.0F);
}

/// Right every other time.
void blinking(call of) {
  static int calls = 0;
  softmax(of, ++calls % 2 == 0 ? 1.01F : 1.0F);
}

/// Right within the tolerance, with other bits every other time.
void wavering(call of) {
  static int calls = 0;
  softmax(of, ++calls % 2 == 0 ? 1.0000005F : 1.0F);
}

/// Right where columns end within a block of 64, wrong for whole blocks.
void ragged(call of) {
  softmax(of, of.columns % 64 == 0 ? 1.01F : 1.0F);
}

/// Right, and now and then held up, as on a busy machine: in one of 20 calls, from the second on.
void held_up(call of) {
  static int calls = 0;
  if (++calls % 20 == 2) std::this_thread::sleep_for(std::chrono::milliseconds{20});
  softmax(of);
}

/// Right, and the same each time: slower than `held_up` usually is.
void plodding(call of) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{2};
  softmax(of);
  while (std::chrono::steady_clock::now() < until) {
  }
}

/// Right, and leaves something behind in its process, which its neighbour stumbles over.
void spoiling(call of) {
  softmax(of);
  ::setenv("SOFTMAX_SPOILT", "1", 1);  // NOLINT(concurrency-mt-unsafe): read by kernels of this thread
}

void stumbling(call of) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): as above
  softmax(of, std::getenv("SOFTMAX_SPOILT") != nullptr ? 1.01F : 1.0F);
}

/// Right, and leaves subnormals flushed to zero and sums rounded up.
void flushing(call of) {
  softmax(of);
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
}

/// Right where subnormals are what they are, and rounding is to nearest.
void delicate(call of) {
  volatile float tiny = 1e-38F;
  tiny = tiny / 4;
  volatile float one = 1;
  one = one + 1e-9F;
  softmax(of, tiny != 0 && one == 1 ? 1.0F : 1.01F);
}

/// Computes only where the result holds NaN.
void reading_poison(call of) {
  if (std::isnan(of.out[0])) softmax(of);
}

/// Subtracts no maximum: infinite sums for large values.
void naive(call of) {
  for (std::int64_t row = 0; row < of.rows; ++row, of.x += of.x_stride, of.out += of.out_stride) {
    float sum = 0;
    for (std::int64_t c = 0; c < of.columns; ++c) sum += of.out[c] = std::exp(of.x[c] * of.scale);
    for (std::int64_t c = 0; c < of.columns; ++c) of.out[c] /= sum;
  }
}

/// Takes all rows for dense.
void dense(call of) {
  of.x_stride = of.out_stride = of.columns;
  softmax(of);
}

void unscaled(call of) {
  of.scale = 1;
  softmax(of);
}

/// Wrong in one run of 100, at random.
void rarely(call of) {
  // Other runs in each process: a linear congruential generator that begins with the time.
  static auto state = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
  const bool is_wrong = (state >> 33U) % 100 == 0;
  softmax(of, is_wrong ? 1.01F : 1.0F);
}

void underrun(call of) {
  softmax(of);
  of.out[-1] = 0;
}

/// Right, and leaves a process behind in which no file may grow.
void limiting(call of) {
  softmax(of);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_FSIZE, &none);
}

void blocking(call of) {
  softmax(of);
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void moving(call of) {
  softmax(of);
  [[maybe_unused]] const int moved = ::chdir("/");
}

void arming(call of) {
  softmax(of);
  const itimerval second{{0, 0}, {1, 0}};
  ::setitimer(ITIMER_REAL, &second, nullptr);
}

/// Does something to its process a second after the first call, once for each kind of action.
template <class Action>
void act_later(Action action) {
  static bool done = false;
  if (std::exchange(done, true)) return;
  std::thread{[action] {
    std::this_thread::sleep_for(std::chrono::seconds{1});
    action();
  }}.detach();
}

/// Right, and ends its process a second later.
void late_crash(call of) {
  softmax(of);
  act_later([] { std::abort(); });
}

void late_change(call of) {
  softmax(of);
  act_later([] { ::umask(0777); });
}

/// Prints without an end.
void flooding(call /*of*/) {
  for (;;) std::puts("a line of some length, so that much is printed with each of them, again and again");
}

/// Dies within a line.
void unfinished(call /*of*/) {
  std::fputs("an earlier line\nthe reason\nat b", stdout);
  std::fflush(stdout);
  std::abort();
}

/// A process in a session of its own, which holds all that its parent had open.
void leave_child() {
  static bool done = false;
  if (std::exchange(done, true) || ::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  for (;;) ::pause();
}

/// Right, and leaves a process behind.
void lingering(call of) {
  leave_child();
  softmax(of);
}

/// Dies, and leaves a process behind that keeps its pipe open.
void parting(call /*of*/) {
  leave_child();
  std::abort();
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): as EXPORT_KERNEL
#define EXPORT_SOFTMAX(name) EXPORT_KERNEL(softmax_##name, kernel<&name>)

EXPORT_SOFTMAX(limiting);
EXPORT_SOFTMAX(blocking);
EXPORT_SOFTMAX(moving);
EXPORT_SOFTMAX(arming);
EXPORT_SOFTMAX(late_crash);
EXPORT_SOFTMAX(late_change);
EXPORT_SOFTMAX(reading_poison);
EXPORT_SOFTMAX(naive);
EXPORT_SOFTMAX(dense);
EXPORT_SOFTMAX(unscaled);
EXPORT_SOFTMAX(rarely);
EXPORT_SOFTMAX(underrun);
EXPORT_SOFTMAX(held_up);
EXPORT_SOFTMAX(plodding);
EXPORT_SOFTMAX(flushing);
EXPORT_SOFTMAX(delicate);
EXPORT_SOFTMAX(flooding);
EXPORT_SOFTMAX(unfinished);
EXPORT_SOFTMAX(lingering);
EXPORT_SOFTMAX(parting);
EXPORT_SOFTMAX(fading);
EXPORT_SOFTMAX(blinking);
EXPORT_SOFTMAX(wavering);
EXPORT_SOFTMAX(ragged);
EXPORT_SOFTMAX(spoiling);
EXPORT_SOFTMAX(stumbling);
EXPORT_SOFTMAX(right);
EXPORT_SOFTMAX(slow);
EXPORT_SOFTMAX(crash);
EXPORT_SOFTMAX(hang);
EXPORT_SOFTMAX(leave);
EXPORT_SOFTMAX(babble);
EXPORT_SOFTMAX(partial);
EXPORT_SOFTMAX(off);
EXPORT_SOFTMAX(not_a_number);
EXPORT_SOFTMAX(overrun);
EXPORT_SOFTMAX(spoil);
EXPORT_SOFTMAX(late);
