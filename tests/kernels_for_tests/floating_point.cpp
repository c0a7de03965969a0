// SPDX-License-Identifier: MIT
// What -ffast-math and careless kernels do: a floating-point mode set on loading, and one set by a kernel.
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <thread>

#include "export.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

using switchyard::host::block;

void set_mode() {
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);  // subnormals become zero, as the start-up code of -ffast-math has it
#endif
}

__attribute__((constructor)) void loaded() {
  set_mode();
}

/// A block of each thread: none is so quick that another thread's would be done by it too.
void wait() {
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
}

void change(const block& /*here*/) {
  set_mode();
  wait();
}

/// out[block] = 1 where the thread's mode is the usual one.
void inspect(const block& here, std::int32_t* out) {
  volatile float tiny = 1e-38F;
  tiny = tiny / 4;
  out[here.index.x] = std::fegetround() == FE_TONEAREST && tiny != 0 ? 1 : 0;
  wait();
}

}  // namespace

EXPORT_KERNEL(change_mode, change);
EXPORT_KERNEL(inspect_mode, inspect);
