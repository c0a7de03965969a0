// Memory of the GPU for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "cuda/raw.hpp"

namespace {

/// Device memory full of 0xFF, which is NaN, or a copy of host memory, each in a mapping of its own that ends
/// with it. Freed all at once.
class device_memory {
 public:
  [[nodiscard]] std::byte* poisoned(std::size_t bytes) {
    const std::size_t size = std::max<std::size_t>(bytes, 16);
    const unsigned long long address = buffers_.emplace_back(size).get();
    raw::call("cuMemsetD8_v2", address, static_cast<unsigned char>(0xFF), size);
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
  std::deque<raw::guarded_memory> buffers_;
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
