// SPDX-License-Identifier: MIT
// Catch2, version 2 (Debian 12) or 3 (Ubuntu 24.04), and how a test program says that it cannot run here.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#ifdef SWITCHYARD_CATCH2_V2
#include <catch2/catch.hpp>

/// Matches a string that has this part.
[[nodiscard]] inline auto has_text(const std::string& part) {
  return Catch::Matchers::Contains(part);
}
#else
#include <catch2/catch_all.hpp>

using Catch::Approx;

/// Matches a string that has this part.
[[nodiscard]] inline auto has_text(const std::string& part) {
  return Catch::Matchers::ContainsSubstring(part);
}
#endif

/// Matches the empty string: what is there instead is shown.
[[nodiscard]] inline auto no_text() {
  return Catch::Matchers::Equals("");
}

/// Ends the program as skipped: for programs that need a device, first thing in each of their cases.
[[noreturn]] inline void skip_program(std::string_view reason) {
  std::printf("skipped: %.*s\n", static_cast<int>(reason.size()), reason.data());
  std::fflush(stdout);
  std::_Exit(77);
}
