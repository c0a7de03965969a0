// The memory that kernels see: allocations of the device, and the LDS of a workgroup. Every access is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

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
[[nodiscard]] void* allocate(std::size_t bytes);
/// False where nothing begins there.
bool release(void* address);
/// What is allocated, in order.
[[nodiscard]] std::vector<range> allocated();
/// Fills with what nothing should be computed from: not the same twice, and NaN where it is read as a float.
void fill_with_garbage(void* to, std::size_t bytes);

/// Addresses of the LDS as generic pointers have them.
constexpr std::uint64_t shared_base = std::uint64_t{1} << 48U;

/// The memory as one wave sees it.
class access {
 public:
  access(const std::vector<range>& global, std::byte* lds, std::uint32_t lds_bytes)
      : global_{&global}, shared_{lds}, shared_bytes_{lds_bytes} {}

  bool shared = false;  ///< whether the instruction is of the LDS

  template <class Value>
  [[nodiscard]] Value load(std::uint64_t address) {
    Value value;
    std::memcpy(&value, at(address, sizeof value, "reads"), sizeof value);
    return value;
  }
  template <class Value>
  void store(std::uint64_t address, Value value) {
    std::memcpy(at(address, sizeof value, "writes"), &value, sizeof value);
  }

 private:
  [[nodiscard]] std::byte* at(std::uint64_t address, std::size_t bytes, const char* what) {
    if (!shared && address >= last_.begin && address + bytes <= last_.end)
      return reinterpret_cast<std::byte*>(address);
    return find(address, bytes, what);
  }
  [[nodiscard]] std::byte* find(std::uint64_t address, std::size_t bytes, const char* what);

  const std::vector<range>* global_;
  std::byte* shared_;
  std::uint32_t shared_bytes_;
  range last_;
};

}  // namespace emulator
