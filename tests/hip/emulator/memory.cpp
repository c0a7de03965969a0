// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

#include "write_log.hpp"

namespace emulator {

namespace {

struct {
  std::mutex mutex;
  struct block {
    std::size_t bytes;
    int device;
  };
  std::map<std::uintptr_t, block> blocks;
} heap;  // NOLINT: what a driver has one of

constexpr std::align_val_t alignment{256};  // hipMalloc's
constexpr std::size_t guard = 4096;         // bytes on either side of an allocation that are nobody's

thread_local std::size_t next_garbage = 0;

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
  const std::size_t whole = pattern.size() * 4;
  auto* at = static_cast<std::byte*>(to);
  next_garbage += 52;
  for (std::size_t from = next_garbage % (whole / 2) & ~std::size_t{3}; bytes != 0; from = 0) {
    const std::size_t part = std::min(bytes, whole - from);
    std::memcpy(at, reinterpret_cast<const std::byte*>(pattern.data()) + from, part);
    at += part;
    bytes -= part;
  }
}

void choose_garbage(std::uint64_t number) {
  next_garbage = number * 0x9e3779b97f4a7c15U >> 32U;
}

void* allocate(std::size_t bytes, int device) {
  if (bytes > std::size_t{1} << 36U) return nullptr;
  auto* const whole = static_cast<std::byte*>(::operator new(bytes + 2 * guard, alignment, std::nothrow));
  if (whole == nullptr) return nullptr;
  void* const memory = whole + guard;
  fill_with_garbage(memory, bytes);
  const std::scoped_lock lock{heap.mutex};
  heap.blocks[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, device};
  return memory;
}

bool release(void* address) {
  const std::scoped_lock lock{heap.mutex};
  if (heap.blocks.erase(reinterpret_cast<std::uintptr_t>(address)) == 0) return false;
  ::operator delete(static_cast<std::byte*>(address) - guard, alignment);
  return true;
}

std::vector<range> allocated(int device) {
  const std::scoped_lock lock{heap.mutex};
  std::vector<range> all;
  all.reserve(heap.blocks.size());
  for (const auto& [begin, block] : heap.blocks) {
    if (block.device == device) all.push_back({begin, begin + block.bytes});
  }
  return all;
}

std::size_t allocated_bytes(int device) {
  std::size_t sum = 0;
  for (const range& one : allocated(device)) sum += one.end - one.begin;
  return sum;
}

namespace {

/// Who touched a byte: the interval between barriers, and in the lowest bits the wave, or one of these.
constexpr std::uint32_t who_bits = 6;
constexpr std::uint32_t several = 63;
constexpr std::uint32_t atomically = 62;

std::uint32_t who(std::uint32_t tag) {
  return tag & ((1U << who_bits) - 1);
}

std::string name_of_wave(std::uint32_t number) {
  if (number == several) return "several waves";
  if (number == atomically) return "atomic instructions";
  return "wave " + std::to_string(number);
}

}  // namespace

void shared_memory::pass_barrier() {
  if (++interval_ >> (32 - who_bits) == 0) return;
  interval_ = 1;
  std::fill(written_.begin(), written_.end(), 0);
  std::fill(read_.begin(), read_.end(), 0);
}

void shared_memory::require_inside(std::uint64_t offset, std::size_t bytes, const char* what) const {
  if (offset + bytes <= bytes_.size()) return;
  throw fault{std::string{what} + " " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
              " of the LDS, of which the workgroup has " + std::to_string(bytes_.size())};
}

const std::byte* shared_memory::read(std::uint64_t offset, std::size_t bytes, unsigned wave, bool atomic) {
  require_inside(offset, bytes, "reads");
  const std::uint32_t me = atomic ? atomically : wave;
  const std::uint32_t mine = interval_ << who_bits | me;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    if (written_[i] != mine && written_[i] >> who_bits == interval_) {
      throw fault{"reads byte " + std::to_string(i) + " of the LDS, which " + name_of_wave(who(written_[i])) +
                  " wrote without a barrier between"};
    }
    if (read_[i] != mine) read_[i] = read_[i] >> who_bits == interval_ ? mine | several : mine;
  }
  return &bytes_[offset];
}

void shared_memory::write(std::uint64_t offset, const void* from, std::size_t bytes, unsigned wave,
                          bool atomic) {
  require_inside(offset, bytes, "writes");
  const std::uint32_t me = atomic ? atomically : wave;
  const std::uint32_t mine = interval_ << who_bits | me;
  const bool changes = std::memcmp(&bytes_[offset], from, bytes) != 0;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    for (const std::uint32_t other : {written_[i], read_[i]}) {
      if (!changes || other == mine || other >> who_bits != interval_) continue;
      throw fault{"writes byte " + std::to_string(i) + " of the LDS, which " + name_of_wave(who(other)) +
                  (other == read_[i] ? " read" : " wrote") + " without a barrier between"};
    }
    written_[i] = mine;
  }
  std::memcpy(&bytes_[offset], from, bytes);
}

std::byte* access::find(std::uint64_t address, std::size_t bytes, const char* what) {
  if (address >> 32U == private_base >> 32U) {
    const std::uint64_t offset = address - private_base;
    if (offset + bytes <= private_bytes_) return &private_[std::size_t{lane} * private_bytes_ + offset];
    throw fault{std::string{what} + " " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                " of a lane's scratch memory, of which there are " + std::to_string(private_bytes_)};
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

void access::keep(std::uint64_t address, std::size_t bytes) {
  if (address < private_base) kept_ = log_->keep(last_, address, bytes);
}

}  // namespace emulator
