// SPDX-License-Identifier: MIT
// Memory of the GPU for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include <switchyard/tune/memory.hpp>

#include "tested_gpu.hpp"

namespace {

/// Device memory full of 0xFF, which is NaN, or a copy of host memory, each in a mapping of its own that ends
/// with it. Freed all at once.
class device_memory {
 public:
  [[nodiscard]] std::byte* poisoned(std::size_t bytes) {
    const std::size_t size = std::max<std::size_t>(bytes, 16);
    if (!tests_cuda()) {
      auto& buffer = buffers_.emplace_back(tested_gpu().driver(), size);
      buffer.fill(0xFF);
      return buffer.data<std::byte>();
    }
    const unsigned long long address = guarded_.emplace_back(size).get();
    raw::call("cuMemsetD8_v2", address, static_cast<unsigned char>(0xFF), size);
    return reinterpret_cast<std::byte*>(address);
  }
  template <class Value>
  [[nodiscard]] Value* copy(const std::vector<Value>& values) {
    const std::size_t bytes = values.size() * sizeof(Value);
    std::byte* const to = poisoned(bytes);
    if (!values.empty()) {
      if (tests_cuda()) {
        raw::call("cuMemcpyHtoD_v2", reinterpret_cast<unsigned long long>(to),
                  static_cast<const void*>(values.data()), bytes);
      } else {
        buffers_.back().upload(values.data(), bytes);
      }
    }
    return reinterpret_cast<Value*>(to);
  }

 private:
  std::deque<raw::guarded_memory> guarded_;
  std::deque<switchyard::tune::device_buffer> buffers_;
};

/// Fills device memory with 0xFF. A kernel's stream does not wait for it: wait_for_gpu() before a launch.
[[maybe_unused]] inline void poison(std::byte* memory, std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 16);
  if (tests_cuda()) {
    raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(memory), static_cast<unsigned char>(0xFF),
              bytes);
  } else {
    succeeded(tested_gpu().driver()->fill(memory, 0xFF, bytes, {}));
  }
}

[[maybe_unused]] inline std::vector<std::byte> fetch(const std::byte* memory, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  if (bytes == 0) return result;
  if (tests_cuda()) {
    raw::call("cuMemcpyDtoH_v2", static_cast<void*>(result.data()),
              reinterpret_cast<unsigned long long>(memory), bytes);
  } else {
    succeeded(tested_gpu().driver()->copy(result.data(), memory, bytes, {}));
    wait_for_gpu();
  }
  return result;
}

}  // namespace
