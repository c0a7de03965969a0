// Memory of the GPU for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/raw.hpp"

namespace {

/// Device memory full of 0xFF, which is NaN, or a copy of host memory. Freed all at once.
class device_memory {
 public:
  device_memory() = default;
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() {
    for (const unsigned long long address : addresses_) raw::try_call("cuMemFree_v2", address);
  }
  [[nodiscard]] std::byte* poisoned(std::size_t bytes) {
    unsigned long long address = 0;
    raw::call("cuMemAlloc_v2", &address, std::max<std::size_t>(bytes, 16));
    addresses_.push_back(address);
    raw::call("cuMemsetD8_v2", address, static_cast<unsigned char>(0xFF), std::max<std::size_t>(bytes, 16));
    return reinterpret_cast<std::byte*>(address);
  }
  template <class Value>
  [[nodiscard]] Value* copy(const std::vector<Value>& values) {
    std::byte* const to = poisoned(values.size() * sizeof(Value));
    if (!values.empty()) {
      raw::call("cuMemcpyHtoD_v2", reinterpret_cast<unsigned long long>(to),
                static_cast<const void*>(values.data()), values.size() * sizeof(Value));
    }
    return reinterpret_cast<Value*>(to);
  }

 private:
  std::vector<unsigned long long> addresses_;
};

/// Fills device memory with 0xFF. A kernel's stream does not wait for it: synchronize before a launch.
[[maybe_unused]] inline void poison(std::byte* memory, std::size_t bytes) {
  raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(memory), static_cast<unsigned char>(0xFF),
            std::max<std::size_t>(bytes, 16));
}

[[maybe_unused]] inline std::vector<std::byte> fetch(const std::byte* memory, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  if (bytes == 0) return result;
  raw::call("cuMemcpyDtoH_v2", static_cast<void*>(result.data()),
            reinterpret_cast<unsigned long long>(memory), bytes);
  return result;
}

}  // namespace
