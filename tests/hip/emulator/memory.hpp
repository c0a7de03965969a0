// SPDX-License-Identifier: MIT
// The memory that kernels see: allocations of the device, and the LDS of a workgroup. Every access is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "family.hpp"

namespace emulator {

/// What a kernel did that it must not.
class fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Allocates memory that begins as garbage. Null where there is none.
[[nodiscard]] void* allocate(std::size_t bytes, int device);
/// False where nothing begins there.
bool release(void* address);
/// What is allocated on a device, in order.
[[nodiscard]] std::vector<range> allocated(int device);
/// How many bytes that is.
[[nodiscard]] std::size_t allocated_bytes(int device);
/// Fills with what nothing should be computed from: not the same twice, and NaN where it is read as a float.
void fill_with_garbage(void* to, std::size_t bytes);
/// Whatever this thread fills next is the same as behind another call with this number.
void choose_garbage(std::uint64_t number);

/// Addresses of the LDS and of scratch memory as generic pointers have them.
constexpr std::uint64_t shared_base = std::uint64_t{1} << 48U;
constexpr std::uint64_t private_base = std::uint64_t{1} << 49U;

/// The LDS of a workgroup, with which wave read and wrote each byte since the last barrier: two waves of
/// which one writes race.
class shared_memory {
 public:
  explicit shared_memory(std::size_t bytes) : bytes_(bytes), written_(bytes), read_(bytes) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  /// For another workgroup.
  void begin() {
    fill_with_garbage(bytes_.data(), bytes_.size());
    pass_barrier();
  }
  void pass_barrier();

  [[nodiscard]] const std::byte* read(std::uint64_t offset, std::size_t bytes, unsigned wave, bool atomic);
  /// Of several waves that write the same, none does harm.
  void write(std::uint64_t offset, const void* from, std::size_t bytes, unsigned wave, bool atomic);

 private:
  void require_inside(std::uint64_t offset, std::size_t bytes, const char* what) const;

  std::vector<std::byte> bytes_;
  std::vector<std::uint32_t> written_;  ///< by whom in which interval between barriers
  std::vector<std::uint32_t> read_;
  std::uint32_t interval_ = 0;
};

class write_log;

/// The memory as one wave sees it. A log is told of what is written outside of the LDS and scratch memory.
class access {
 public:
  access(const std::vector<range>& global, shared_memory& lds, unsigned wave, std::uint32_t private_bytes,
         write_log* log)
      : private_(std::size_t{private_bytes} * lanes),
        global_{&global},
        lds_{&lds},
        private_bytes_{private_bytes},
        wave_{wave},
        log_{log} {}

  /// For another workgroup.
  void begin() { fill_with_garbage(private_.data(), private_.size()); }

  bool shared = false;  ///< whether the instruction is of the LDS
  bool atomic = false;  ///< whether it reads and writes at once
  unsigned lane = 0;

  template <class Value>
  [[nodiscard]] Value load(std::uint64_t address) {
    Value value;
    const std::byte* from = nullptr;
    if (const auto offset = shared_offset(address))
      from = lds_->read(*offset, sizeof value, wave_, atomic);
    else
      from = at(address, sizeof value, "reads");
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <class Value>
  void store(std::uint64_t address, Value value) {
    if (const auto offset = shared_offset(address))
      lds_->write(*offset, &value, sizeof value, wave_, atomic);
    else
      std::memcpy(to_write(address, sizeof value), &value, sizeof value);
  }

 private:
  [[nodiscard]] std::optional<std::uint64_t> shared_offset(std::uint64_t address) const {
    if (shared) return address;
    if (address >> 32U == shared_base >> 32U) return address - shared_base;
    return std::nullopt;
  }
  [[nodiscard]] std::byte* at(std::uint64_t address, std::size_t bytes, const char* what) {
    if (address >= last_.begin && address + bytes <= last_.end) return reinterpret_cast<std::byte*>(address);
    return find(address, bytes, what);
  }
  [[nodiscard]] std::byte* to_write(std::uint64_t address, std::size_t bytes) {
    std::byte* const to = at(address, bytes, "writes");
    if (log_ != nullptr && (address < kept_.begin || address + bytes > kept_.end)) keep(address, bytes);
    return to;
  }
  [[nodiscard]] std::byte* find(std::uint64_t address, std::size_t bytes, const char* what);
  void keep(std::uint64_t address, std::size_t bytes);

  std::vector<std::byte> private_;  ///< scratch memory, lane by lane
  const std::vector<range>* global_;
  shared_memory* lds_;
  std::uint32_t private_bytes_;
  unsigned wave_;
  write_log* log_;
  range last_;  ///< the allocation that was found last
  range kept_;  ///< what the log has of it
};

}  // namespace emulator
