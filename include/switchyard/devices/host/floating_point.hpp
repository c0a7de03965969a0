// SPDX-License-Identifier: MIT
// The calling thread's floating-point mode: rounding, subnormals flushed to zero, trapped exceptions, x87
// precision. Shared objects linked with -ffast-math set it when they are loaded, and kernels may set it while
// they run; neither may leak into the engine or into the next kernel.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace switchyard {
inline namespace v0 {
namespace host {

/// Keeps the thread's mode for the life of the object: what changed meanwhile is changed back at its end.
/// Exceptions that were raised stay raised. Nothing is written where nothing changed, which costs two reads.
class floating_point_guard {
 public:
  floating_point_guard(const floating_point_guard&) = delete;
  floating_point_guard& operator=(const floating_point_guard&) = delete;

#if defined(__x86_64__)
  floating_point_guard() noexcept : sse_{__builtin_ia32_stmxcsr()}, x87_{read_x87()} {}
  ~floating_point_guard() {
    const std::uint32_t sse = __builtin_ia32_stmxcsr();
    if (((sse ^ sse_) & ~raised) != 0) __builtin_ia32_ldmxcsr((sse_ & ~raised) | (sse & raised));
    if (read_x87() != x87_) asm volatile("fldcw %0" : : "m"(x87_));
  }

 private:
  static constexpr std::uint32_t raised = 0x3f;  // sticky exception flags

  [[nodiscard]] static std::uint16_t read_x87() noexcept {
    std::uint16_t out = 0;
    asm volatile("fnstcw %0" : "=m"(out));
    return out;
  }

  std::uint32_t sse_;
  std::uint16_t x87_;
#elif defined(__aarch64__)
  floating_point_guard() noexcept : control_{read()} {}
  ~floating_point_guard() {
    if (read() != control_) asm volatile("msr fpcr, %0" : : "r"(control_));
  }

 private:
  [[nodiscard]] static std::uint64_t read() noexcept {
    std::uint64_t out = 0;
    asm volatile("mrs %0, fpcr" : "=r"(out));
    return out;
  }

  std::uint64_t control_;
#else
  floating_point_guard() noexcept {
    std::fegetenv(&all_);
  }
  ~floating_point_guard() {
    std::feupdateenv(&all_);
  }

 private:
  std::fenv_t all_;
#endif
};

}  // namespace host
}  // namespace v0
}  // namespace switchyard
