#include "memory.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>

namespace emulator {

namespace {

struct {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> sizes;
} heap;  // NOLINT: what a driver has one of

constexpr std::align_val_t alignment{256};  // hipMalloc's

std::string hexadecimal(std::uint64_t number) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), digits[number % 16]);
  while ((number /= 16) != 0);
  return "0x" + text;
}

}  // namespace

void fill_with_garbage(void* to, std::size_t bytes) {
  static const std::vector<std::uint32_t> pattern = [] {
    std::vector<std::uint32_t> words(std::size_t{1} << 14U);
    std::uint32_t state = 1;
    for (std::uint32_t& word : words) {
      state = state * 1664525U + 1013904223U;
      word = 0x7fc07fc0U | (state >> 8U & 0x803f803fU);  // NaN as f32, bf16 and f16
    }
    return words;
  }();
  static std::atomic<std::size_t> begin{0};
  const std::size_t whole = pattern.size() * 4;
  auto* at = static_cast<std::byte*>(to);
  for (std::size_t from = begin.fetch_add(52) % (whole / 2) & ~std::size_t{3}; bytes != 0; from = 0) {
    const std::size_t part = std::min(bytes, whole - from);
    std::memcpy(at, reinterpret_cast<const std::byte*>(pattern.data()) + from, part);
    at += part;
    bytes -= part;
  }
}

void* allocate(std::size_t bytes) {
  if (bytes > std::size_t{1} << 36U) return nullptr;
  void* const memory = ::operator new(bytes, alignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  fill_with_garbage(memory, bytes);
  const std::scoped_lock lock{heap.mutex};
  heap.sizes[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

bool release(void* address) {
  const std::scoped_lock lock{heap.mutex};
  if (heap.sizes.erase(reinterpret_cast<std::uintptr_t>(address)) == 0) return false;
  ::operator delete(address, alignment);
  return true;
}

std::vector<range> allocated() {
  const std::scoped_lock lock{heap.mutex};
  std::vector<range> all;
  all.reserve(heap.sizes.size());
  for (const auto& [begin, bytes] : heap.sizes) all.push_back({begin, begin + bytes});
  return all;
}

std::byte* access::find(std::uint64_t address, std::size_t bytes, const char* what) {
  const bool generic = !shared && address >> 32U == shared_base >> 32U;
  if (shared || generic) {
    const std::uint64_t offset = generic ? address - shared_base : address;
    if (offset + bytes <= shared_bytes_) return shared_ + offset;
    throw fault{std::string{what} + " " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                " of the LDS, of which the workgroup has " + std::to_string(shared_bytes_)};
  }
  const auto behind =
      std::upper_bound(global_->begin(), global_->end(), address,
                       [](std::uint64_t value, const range& one) { return value < one.begin; });
  if (behind != global_->begin()) {
    const range& one = *(behind - 1);
    if (address + bytes <= one.end) {
      last_ = one;
      return reinterpret_cast<std::byte*>(address);
    }
    if (address < one.end + 65536) {
      throw fault{std::string{what} + " " + std::to_string(bytes) + " bytes at byte " +
                  std::to_string(address - one.begin) + " of an allocation of " +
                  std::to_string(one.end - one.begin)};
    }
  }
  throw fault{std::string{what} + " " + std::to_string(bytes) + " bytes at " + hexadecimal(address) +
              ", where nothing is allocated"};
}

}  // namespace emulator
