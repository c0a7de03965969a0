// SPDX-License-Identifier: MIT
// The bodies of scan_json.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/scan_json.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION json_scan json_scanner::scan(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    while (i < text.size() && !is_structure(text[i])) ++i;
    if (i == text.size()) break;
    switch (text[i]) {
      case '"': {
        const std::size_t begin = i + 1;
        for (++i; i < text.size(); ++i) {
          const char c = text[i];
          if (c > '\\') continue;  // most letters
          if (c == '"') break;
          if (c == '\\') {
            ++i;
          } else if (c == '\0') {
            note_zero(i);
          }
        }
        string_ = i < text.size() ? text.substr(begin, i - begin) : std::string_view{};
        break;
      }
      case ':':
        add_key(string_);
        break;
      case ',':
        if (level_ > 0 && level_ <= max_json_depth) ++levels_[level_ - 1].index;
        break;
      case '[':
      case '{':
        open();
        break;
      case ']':
      case '}':
        close();
        break;
      case '\0':
        note_zero(i);
        break;
      default:
        break;
    }
  }
  return std::move(out_);
}

SWITCHYARD_FUNCTION bool json_scanner::is_structure(char c) noexcept {
  static constexpr std::array<bool, 256> yes = [] {
    std::array<bool, 256> out{};
    for (const char character : std::string_view{"\0\",:[]{}", 8})
      out[static_cast<unsigned char>(character)] = true;
    return out;
  }();
  return yes[static_cast<unsigned char>(c)];
}

SWITCHYARD_FUNCTION void json_scanner::open() {
  if (++level_ > out_.depth) out_.depth = level_;
  if (level_ > max_json_depth) return;
  level& here = levels_[level_ - 1];
  here.first_key = keys_.size();
  here.index = 0;
  here.key = {};
  here.many.reset();
}

SWITCHYARD_FUNCTION void json_scanner::close() {
  if (level_ == 0) return;
  if (level_ <= max_json_depth) keys_.resize(levels_[level_ - 1].first_key);
  --level_;
}

SWITCHYARD_FUNCTION void json_scanner::add_key(std::string_view key) {
  if (level_ == 0 || level_ > max_json_depth) return;
  if (key.find('\\') != std::string_view::npos) key = *decoded_.insert(decode(key)).first;
  level& here = levels_[level_ - 1];
  here.key = key;
  if (is_known(here, key)) {
    if (!out_.has_repeated_key) out_.repeated_key = pointer();
    out_.has_repeated_key = true;
    return;
  }
  keys_.push_back(key);
}

SWITCHYARD_FUNCTION bool json_scanner::is_known(level& here, std::string_view key) {
  const std::size_t count = keys_.size() - here.first_key;
  if (count < few_keys) {
    for (std::size_t i = here.first_key; i < keys_.size(); ++i) {
      if (keys_[i] == key) return true;
    }
    return false;
  }
  if (here.many == nullptr) {
    here.many = std::make_unique<std::unordered_set<std::string_view>>(
        keys_.begin() + static_cast<std::ptrdiff_t>(here.first_key), keys_.end());
  }
  return !here.many->insert(key).second;
}

SWITCHYARD_FUNCTION std::string json_scanner::decode(std::string_view key) {
  std::string out;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i] != '\\' || i + 1 == key.size()) {
      out += key[i];
      continue;
    }
    constexpr std::string_view escapes = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    ++i;
    if (const std::size_t which = escapes.find(key[i]); which != std::string_view::npos) {
      out += meant[which];
      continue;
    }
    std::uint32_t code = unit(key, i);
    const std::uint32_t low = unit(key, i + 6);
    std::size_t length = 5;
    if (code >= 0xd800 && code < 0xdc00 && i + 5 < key.size() && key[i + 5] == '\\' && low >= 0xdc00 &&
        low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
      length = 11;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      (out += '\\') += key[i];
      continue;
    }
    add_utf8(out, code);
    i += length - 1;
  }
  return out;
}

SWITCHYARD_FUNCTION std::uint32_t json_scanner::unit(std::string_view key, std::size_t at) {
  constexpr std::uint32_t none = 0xffffffff;
  if (at + 5 > key.size() || key[at] != 'u') return none;
  std::uint32_t out = 0;
  for (const char c : key.substr(at + 1, 4)) {
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      out = out * 16 + static_cast<std::uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      out = out * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    } else {
      return none;
    }
  }
  return out;
}

SWITCHYARD_FUNCTION void json_scanner::add_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | (code >> shift & 0x3fU)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0U | code >> 6U);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0U | code >> 12U);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0U | code >> 18U);
    tail(12), tail(6), tail(0);
  }
}

SWITCHYARD_FUNCTION std::string json_scanner::pointer() const {
  std::string out;
  for (std::size_t i = 0; i < level_; ++i) {
    const level& inside = levels_[i];
    out += '/';
    if (inside.key.data() == nullptr) {
      out += std::to_string(inside.index);
      continue;
    }
    for (const char c : inside.key.substr(0, 64)) {  // RFC 6901
      if (c == '~' || c == '/') {
        out += c == '~' ? "~0" : "~1";
      } else {
        out += c;
      }
    }
  }
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
