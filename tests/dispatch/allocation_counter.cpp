// SPDX-License-Identifier: MIT
#include "allocation_counter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

std::atomic<bool> is_failing{false};
// While it is, written before:
std::atomic<std::uint64_t> made{0};
std::uint64_t first_failing = 0;
bool fails_once = false;
bool fails_in_owner = false;
thread_local bool is_owner = false;

[[nodiscard]] bool fails() noexcept {
  if (!is_failing.load(std::memory_order_acquire) || is_owner != fails_in_owner) return false;
  const std::uint64_t number = ++made;
  return fails_once ? number == first_failing : number >= first_failing;
}

template <class Allocate>
void* take(const Allocate& allocate) noexcept {
  ++allocations;
  return fails() ? nullptr : allocate();
}

void* require(void* address) {
  if (address == nullptr) throw std::bad_alloc{};
  return address;
}

}  // namespace

std::uint64_t test::allocations_of_this_thread() noexcept {
  return allocations;
}
std::int64_t test::live_bytes() noexcept {
  return static_cast<std::int64_t>(::mallinfo2().uordblks);
}

test::failing_allocations::failing_allocations(std::uint64_t nth, threads of, until last) noexcept {
  first_failing = nth;
  fails_once = last == until::next;
  fails_in_owner = of == threads::mine;
  is_owner = true;
  made = 0;
  is_failing.store(true, std::memory_order_release);
}
test::failing_allocations::~failing_allocations() {
  is_failing = false;
  is_owner = false;
}
bool test::failing_allocations::was_reached() const noexcept {
  return made >= first_failing;
}

// The forms that the standard library's others call.
void* operator new(std::size_t bytes) {
  return require(take([&] { return std::malloc(bytes == 0 ? 1 : bytes); }));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return require(take([&] { return std::aligned_alloc(align, (bytes + align - 1) / align * align); }));
}
// A sanitizer's own would not match the operators delete below.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return take([&] { return std::malloc(bytes == 0 ? 1 : bytes); });
}
void operator delete(void* address) noexcept {
  std::free(address);
}
void operator delete(void* address, std::size_t /*bytes*/) noexcept {
  std::free(address);
}
void operator delete(void* address, std::align_val_t /*alignment*/) noexcept {
  std::free(address);
}
void operator delete(void* address, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(address);
}
