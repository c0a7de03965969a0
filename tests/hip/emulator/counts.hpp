// SPDX-License-Identifier: MIT
// What was run: kernels, and kinds of instruction. Written to the file that HIP_EMULATOR_COUNTS names when
// the program ends, a line for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

/// Counts of one thread, which are added to all when it ends.
class counts {
 public:
  counts();
  counts(const counts&) = delete;
  counts& operator=(const counts&) = delete;
  ~counts();

  [[nodiscard]] std::uint64_t* of_kinds() { return kinds_.data(); }
  static void launched(const std::string& image, const std::string& kernel);
  /// That a kernel was compared in two orders, or could not be.
  static void compared(const std::string& image, const std::string& kernel, bool could_be);
  /// A kind that is in the code of a kernel that was loaded.
  static void occurs(const char* kind);

 private:
  std::vector<std::uint64_t> kinds_;
};

}  // namespace emulator
