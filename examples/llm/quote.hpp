// SPDX-License-Identifier: MIT
// Quotes text of unknown origin for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llm {

/// In single quotes, bytes other than printable ASCII as \xNN, cut after 60 bytes with "…".
[[nodiscard]] inline std::string quote(std::string_view text) {
  constexpr std::size_t most = 60;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char character : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      out += character;
    } else {
      out += "\\x";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  if (text.size() > most) out += "…";
  return out + "'";
}

}  // namespace llm
