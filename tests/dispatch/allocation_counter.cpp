#include "allocation_counter.hpp"

#include <cstddef>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

void* count(void* address) {
  if (address == nullptr) throw std::bad_alloc{};
  ++allocations;
  return address;
}

}  // namespace

std::uint64_t test::allocations_of_this_thread() noexcept {
  return allocations;
}
std::int64_t test::live_bytes() noexcept {
  return static_cast<std::int64_t>(::mallinfo2().uordblks);
}

// The forms that the standard library's others call.
void* operator new(std::size_t bytes) {
  return count(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return count(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
// A sanitizer's own would not match the operators delete below.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
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
