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

void softmax(const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
             std::int64_t x_stride, std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row, x += x_stride, out += out_stride) {
    const float top = *std::max_element(x, x + columns) * scale;
    float sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += out[c] = std::exp(x[c] * scale - top);
    for (std::int64_t c = 0; c < columns; ++c) out[c] /= sum;
  }
}

void right(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
           std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

/// Right, after a while: for tests that stop the tuner in between.
void slow(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
          std::int64_t x_stride, std::int64_t out_stride) {
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

void crash(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t,
           std::int64_t) {
  std::fputs("about to read where nothing is\n", stderr);
  std::raise(SIGSEGV);
}

void hang(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t, std::int64_t) {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds{1});
}

void leave(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t,
           std::int64_t) {
  std::_Exit(3);
}

/// Writes into the pipe that leads to the tuner, wherever it is.
void babble(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
            std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  for (int file = 3; file < 256; ++file) {
    [[maybe_unused]] const ssize_t written = ::write(file, "not JSON\n", 9);
  }
}

/// Leaves the last row out.
void partial(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
             std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows - 1, columns, scale, x_stride, out_stride);
}

void off(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
         std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale * 1.001F, x_stride, out_stride);
}

/// One element of the whole is not a number.
void not_a_number(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns,
                  float scale, std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  out[rows / 2 * out_stride + columns / 2] = std::numeric_limits<float>::quiet_NaN();
}

void overrun(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
             std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  out[(rows - 1) * out_stride + columns] = 0;
}

void spoil(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
           std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  const_cast<float*>(x)[0] = 0;
}

/// Right at first, and dies while it is timed.
void late(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
          std::int64_t x_stride, std::int64_t out_stride) {
  static int calls = 0;
  if (++calls > 20) std::abort();
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

/// Right while it is checked, wrong from then on.
void fading(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
            std::int64_t x_stride, std::int64_t out_stride) {
  static int calls = 0;
  softmax(x, out, rows, columns, ++calls > 3 ? scale * 1.01F : scale, x_stride, out_stride);
}

/// Right every other time.
void blinking(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  static int calls = 0;
  softmax(x, out, rows, columns, ++calls % 2 == 0 ? scale * 1.01F : scale, x_stride, out_stride);
}

/// Right, and now and then held up, as on a busy machine: in one of 20 calls, from the second on.
void held_up(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
             std::int64_t x_stride, std::int64_t out_stride) {
  static int calls = 0;
  if (++calls % 20 == 2) std::this_thread::sleep_for(std::chrono::milliseconds{20});
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

/// Right, and the same each time: slower than `held_up` usually is.
void plodding(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{2};
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  while (std::chrono::steady_clock::now() < until) {
  }
}

/// Right, and leaves something behind in its process, which its neighbour stumbles over.
void spoiling(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  ::setenv("SOFTMAX_SPOILT", "1", 1);  // NOLINT(concurrency-mt-unsafe): read by kernels of this thread
}

void stumbling(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
               std::int64_t x_stride, std::int64_t out_stride) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): as above
  softmax(x, out, rows, columns, std::getenv("SOFTMAX_SPOILT") != nullptr ? scale * 1.01F : scale, x_stride,
          out_stride);
}

/// Right, and leaves subnormals flushed to zero and sums rounded up.
void flushing(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
}

/// Right where subnormals are what they are, and rounding is to nearest.
void delicate(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  volatile float tiny = 1e-38F;
  tiny = tiny / 4;
  volatile float one = 1;
  one = one + 1e-9F;
  softmax(x, out, rows, columns, tiny != 0 && one == 1 ? scale : scale * 1.01F, x_stride, out_stride);
}

/// Computes only where the result holds NaN.
void reading_poison(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns,
                    float scale, std::int64_t x_stride, std::int64_t out_stride) {
  if (std::isnan(out[0])) softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

/// Subtracts no maximum: infinite sums for large values.
void naive(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
           std::int64_t x_stride, std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row, x += x_stride, out += out_stride) {
    float sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += out[c] = std::exp(x[c] * scale);
    for (std::int64_t c = 0; c < columns; ++c) out[c] /= sum;
  }
}

/// Takes all rows for dense.
void dense(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
           std::int64_t, std::int64_t) {
  softmax(x, out, rows, columns, scale, columns, columns);
}

void unscaled(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, 1, x_stride, out_stride);
}

/// Wrong in one run of 100, at random.
void rarely(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
            std::int64_t x_stride, std::int64_t out_stride) {
  // Other runs in each process: a linear congruential generator that begins with the time.
  static auto state = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
  const bool is_wrong = (state >> 33U) % 100 == 0;
  softmax(x, out, rows, columns, is_wrong ? scale * 1.01F : scale, x_stride, out_stride);
}

void underrun(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  out[-1] = 0;
}

/// Right, and leaves a process behind in which no file may grow.
void limiting(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_FSIZE, &none);
}

void blocking(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
              std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void moving(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
            std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  [[maybe_unused]] const int moved = ::chdir("/");
}

void arming(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
            std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
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
void late_crash(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns,
                float scale, std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  act_later([] { std::abort(); });
}

void late_change(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns,
                 float scale, std::int64_t x_stride, std::int64_t out_stride) {
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
  act_later([] { ::umask(0777); });
}

/// Prints without an end.
void flooding(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t,
              std::int64_t) {
  for (;;) std::puts("a line of some length, so that much is printed with each of them, again and again");
}

/// Dies within a line.
void unfinished(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t,
                std::int64_t) {
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
void lingering(const block&, const float* x, float* out, std::int64_t rows, std::int64_t columns, float scale,
               std::int64_t x_stride, std::int64_t out_stride) {
  leave_child();
  softmax(x, out, rows, columns, scale, x_stride, out_stride);
}

/// Dies, and leaves a process behind that keeps its pipe open.
void parting(const block&, const float*, float*, std::int64_t, std::int64_t, float, std::int64_t,
             std::int64_t) {
  leave_child();
  std::abort();
}

}  // namespace

EXPORT_KERNEL(softmax_limiting, limiting);
EXPORT_KERNEL(softmax_blocking, blocking);
EXPORT_KERNEL(softmax_moving, moving);
EXPORT_KERNEL(softmax_arming, arming);
EXPORT_KERNEL(softmax_late_crash, late_crash);
EXPORT_KERNEL(softmax_late_change, late_change);
EXPORT_KERNEL(softmax_reading_poison, reading_poison);
EXPORT_KERNEL(softmax_naive, naive);
EXPORT_KERNEL(softmax_dense, dense);
EXPORT_KERNEL(softmax_unscaled, unscaled);
EXPORT_KERNEL(softmax_rarely, rarely);
EXPORT_KERNEL(softmax_underrun, underrun);
EXPORT_KERNEL(softmax_held_up, held_up);
EXPORT_KERNEL(softmax_plodding, plodding);
EXPORT_KERNEL(softmax_flushing, flushing);
EXPORT_KERNEL(softmax_delicate, delicate);
EXPORT_KERNEL(softmax_flooding, flooding);
EXPORT_KERNEL(softmax_unfinished, unfinished);
EXPORT_KERNEL(softmax_lingering, lingering);
EXPORT_KERNEL(softmax_parting, parting);
EXPORT_KERNEL(softmax_fading, fading);
EXPORT_KERNEL(softmax_blinking, blinking);
EXPORT_KERNEL(softmax_spoiling, spoiling);
EXPORT_KERNEL(softmax_stumbling, stumbling);
EXPORT_KERNEL(softmax_right, right);
EXPORT_KERNEL(softmax_slow, slow);
EXPORT_KERNEL(softmax_crash, crash);
EXPORT_KERNEL(softmax_hang, hang);
EXPORT_KERNEL(softmax_leave, leave);
EXPORT_KERNEL(softmax_babble, babble);
EXPORT_KERNEL(softmax_partial, partial);
EXPORT_KERNEL(softmax_off, off);
EXPORT_KERNEL(softmax_not_a_number, not_a_number);
EXPORT_KERNEL(softmax_overrun, overrun);
EXPORT_KERNEL(softmax_spoil, spoil);
EXPORT_KERNEL(softmax_late, late);
