// SPDX-License-Identifier: MIT
// Splits bytes that may be invalid UTF-8 into characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llm {

/// The first character of a text, or its first invalid bytes.
struct utf8_step {
  std::size_t bytes =
      0;  ///< of the character; without one, as many as begin one but do not complete it, at least 1
  bool valid = false;       ///< a character: shortest form, no surrogate, at most U+10FFFF
  bool incomplete = false;  ///< the text ends in the middle of what may become a character
};

/// `text` is not empty. What is not valid is cut as the Unicode standard recommends (maximal subparts).
[[nodiscard]] constexpr utf8_step next_character(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xc2 || lead > 0xf4) return {1, false, false};
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    std::uint8_t low = 0x80;
    std::uint8_t high = 0xbf;
    if (i == 1) {
      if (lead == 0xe0) low = 0xa0;   // shorter forms exist below
      if (lead == 0xed) high = 0x9f;  // surrogates
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;  // beyond U+10FFFF
    }
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace llm
