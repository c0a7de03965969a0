// SPDX-License-Identifier: MIT
#include "byte_level.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace llm {
namespace {

/// The byte that each code point stands for, or -1. Bytes that are printable in Latin-1 stand for themselves;
/// the others follow, in order, from U+0100 on.
constexpr auto byte_of_character = [] {
  std::array<std::int16_t, 0x144> out{};
  out.fill(-1);
  std::size_t next = 0x100;
  for (std::int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    out[printable ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return out;
}();

}  // namespace

bool append_bytes(std::string_view text, std::string& bytes) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t character = static_cast<std::uint8_t>(text[i]);
    if (character >= 0x80) {  // those of the alphabet take two bytes
      if (character < 0xc2 || character > 0xc5 || i + 1 == text.size()) return false;
      const std::size_t second = static_cast<std::uint8_t>(text[++i]);
      if ((second & 0xc0U) != 0x80U) return false;
      character = ((character & 0x1fU) << 6U) | (second & 0x3fU);
    }
    if (character >= byte_of_character.size() || byte_of_character[character] < 0) return false;
    bytes += static_cast<char>(byte_of_character[character]);
  }
  return true;
}

}  // namespace llm
