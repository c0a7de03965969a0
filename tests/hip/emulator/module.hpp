// SPDX-License-Identifier: MIT
// A code object as it was loaded, and its kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "program.hpp"

namespace emulator {

struct argument {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::string hidden;  ///< what it is, where the program does not pass it
};

struct kernel {
  int device = 0;     ///< where its module is
  std::string image;  ///< the SHA-256 of its code object
  std::shared_ptr<const program> code;
  std::vector<argument> arguments;
  std::uint32_t max_threads = 1024;
};

struct grid {
  std::uint32_t blocks[3];
  std::uint32_t threads[3];
  std::uint32_t shared_bytes;  ///< besides those that the kernel has of its own
};

/// An image and what was decoded of it. Throws std::runtime_error.
class module {
 public:
  module(const std::byte* image, const std::string& architecture, int device);

  /// Null where there is none of the name.
  [[nodiscard]] const kernel* find(const std::string& name);

 private:
  std::vector<std::byte> image_;
  std::string architecture_;
  std::string digest_;
  int device_;
  std::map<std::string, std::vector<argument>> arguments_;
  std::map<std::string, std::uint32_t> max_threads_;
  std::mutex mutex_;
  std::map<std::string, kernel> kernels_;
};

/// Runs a kernel to its end on all processors, or all its workgroups at once, so that they may wait for one
/// another. `values` are the arguments, in their order. Throws fault.
void launch(const kernel& what, const grid& where, void* const* values, bool at_once);

}  // namespace emulator
