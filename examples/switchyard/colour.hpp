// SPDX-License-Identifier: MIT
// Colours, on a terminal only.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>

namespace tool {

enum class colour { red, green, yellow };

/// Whether standard output is a terminal that shows colours. NO_COLOR, with any value, turns them off.
[[nodiscard]] inline bool shows_colours() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet
  static const char* const off = std::getenv("NO_COLOR");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): likewise
  static const char* const terminal = std::getenv("TERM");
  static const bool out = ::isatty(::fileno(stdout)) != 0 && (off == nullptr || *off == '\0') &&
                          terminal != nullptr && std::string_view{terminal} != "dumb";
  return out;
}

/// A text in a colour, or as it is.
[[nodiscard]] inline std::string paint(colour in, std::string_view text) {
  if (!shows_colours()) return std::string{text};
  const char* const begin = in == colour::red ? "\033[31m" : in == colour::green ? "\033[32m" : "\033[33m";
  return begin + std::string{text} + "\033[0m";
}

}  // namespace tool
