// SPDX-License-Identifier: MIT
// The bodies of text.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>

namespace switchyard {
inline namespace v0 {
namespace text {

SWITCHYARD_FUNCTION std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::u32string row(b.size() + 1, U'\0');  // of numbers: <vector> would lengthen tensor.hpp by a tenth
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<char32_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    char32_t diagonal = row[0];
    row[0] = static_cast<char32_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char32_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = row[j] + 1;
      if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1;
      if (substituted < row[j]) row[j] = substituted;
    }
  }
  return row[b.size()];
}

SWITCHYARD_FUNCTION std::string number(double value) {
  char buffer[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  const double magnitude = value < 0 ? -value : value;
  const char* format = magnitude >= 100 ? "%.0f" : magnitude >= 10 ? "%.1f" : "%.3g";
  const int length = __builtin_snprintf(buffer, sizeof buffer, format, value);
  std::string out{buffer, static_cast<std::size_t>(length > 0 ? length : 0)};
  for (char& c : out) {
    if (c == ',') c = '.';  // the decimal point of the engine's locale
  }
  return out;
}

SWITCHYARD_FUNCTION std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[i]));
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

/// Bytes of the control character that a text begins with: C0, DEL, or C1, which terminals obey as well; 0
/// where it begins with none.
[[nodiscard]] inline std::size_t control_length(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 1;
  if (first != 0xc2 || text.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second <= 0x9f ? 2 : 0;
}

namespace detail {

/// Appends a byte or a control character as "\u000a".
inline void add_escaped(std::string& out, unsigned value) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u00";
  out += digits[value >> 4U];
  out += digits[value & 15U];
}

}  // namespace detail

SWITCHYARD_FUNCTION std::string find_control(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(1)) {
    const std::size_t length = control_length(text);
    if (length == 0) continue;
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(text[length - 1]);
    return std::string{"U+00"} + digits[value >> 4U] + digits[value & 15U];
  }
  return {};
}

SWITCHYARD_FUNCTION std::string printable(std::string text) {
  std::string_view rest = text;
  const auto is_plain = [&rest](std::size_t length) { return length > 0 && control_length(rest) == 0; };
  while (!rest.empty()) {
    const std::size_t length = utf8_length(rest);
    if (!is_plain(length)) break;
    rest.remove_prefix(length);
  }
  if (rest.empty()) return text;
  std::string out = text.substr(0, text.size() - rest.size());
  while (!rest.empty()) {
    const std::size_t length = utf8_length(rest);
    if (is_plain(length)) {
      out += rest.substr(0, length);
    } else if (length == 0) {
      constexpr std::string_view digits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(rest[0]);
      ((out += "\\x") += digits[byte >> 4U]) += digits[byte & 15U];
    } else {
      detail::add_escaped(out, static_cast<unsigned char>(rest[length - 1]));
    }
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

SWITCHYARD_FUNCTION std::string shortened(std::string_view text, std::size_t most) {
  std::size_t end = text.size() <= most ? text.size() : most;
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  std::string out;
  for (std::string_view rest = text.substr(0, end); !rest.empty();) {
    const std::size_t length = control_length(rest);
    out += length == 0 ? rest[0] : '?';
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return end < text.size() ? out + "..." : out;
}

SWITCHYARD_FUNCTION std::string quote_json(std::string_view value) {
  std::string out = "\"";
  while (!value.empty()) {
    const std::size_t length = utf8_length(value);
    if (length == 2 && control_length(value) == 2) {  // JSON allows them, terminals obey them
      detail::add_escaped(out, static_cast<unsigned char>(value[1]));
      value.remove_prefix(2);
      continue;
    }
    if (length != 1) {
      out += length == 0 ? std::string_view{"\xef\xbf\xbd"} : value.substr(0, length);
      value.remove_prefix(length == 0 ? 1 : length);
      continue;
    }
    const char c = value[0];
    value.remove_prefix(1);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (control_length({&c, 1}) == 1) {
      detail::add_escaped(out, static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace text
}  // namespace v0
}  // namespace switchyard
