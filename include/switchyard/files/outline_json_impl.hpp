// SPDX-License-Identifier: MIT
// The bodies of outline_json.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/scan_json.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::string_view json_outline::value(std::string_view text,
                                                         std::string_view key) const noexcept {
  for (const member& one : members) {
    if (one.key.in(text) == key) return one.value.in(text);
  }
  return {};
}

namespace detail {

SWITCHYARD_FUNCTION json_outliner::json_outliner(const std::string& text) noexcept
    : begin_{text.data()}, end_{text.data() + text.size()}, at_{begin_} {
  if (text.starts_with("\xef\xbb\xbf")) at_ += 3;  // a byte order mark
}

SWITCHYARD_FUNCTION bool json_outliner::outline(std::string_view list, json_outline& out) {
  skip_space();
  const bool is_object = for_each_member([&](text_span key) {
    const bool is_list = key.in(all()) == list;
    const std::uint32_t first = position();
    if (!(is_list && *at_ == '[' ? outline_elements(out) : skip_value(1))) return false;
    out.members.push_back({key, {first, position()}});
    return true;
  });
  if (!is_object) return false;
  skip_space();
  return at_ == end_;
}

SWITCHYARD_FUNCTION std::string_view json_outliner::find(std::string_view wanted) {
  text_span found;
  skip_space();
  (void)for_each_member([&](text_span key) {
    const std::uint32_t first = position();
    if (!skip_value(1)) return false;
    if (key.in(all()) != wanted) return true;
    found = {first, position()};
    return false;
  });
  return found.in(all());
}

SWITCHYARD_FUNCTION bool json_outliner::accept(char wanted) noexcept {
  if (*at_ != wanted) return false;
  ++at_;
  return true;
}

SWITCHYARD_FUNCTION bool json_outliner::outline_elements(json_outline& out) {
  return for_each_element([&] {
    json_outline::element element;
    element.whole.begin = position();
    const bool good = *at_ != '{' ? skip_value(2) : for_each_member([&](text_span key) {
      const std::string_view name = key.in(all());
      const std::uint32_t first = position();
      if (!skip_value(3)) return false;
      if (name == "id") element.id = {first, position()};
      if (name == "type") element.type = {first, position()};
      if (name == "requires") element.conditions = {first, position()};
      return true;
    });
    element.whole.end = position();
    out.elements.push_back(element);
    return good;
  });
}

SWITCHYARD_FUNCTION bool json_outliner::skip_value(
    std::size_t depth) {  // NOLINT(misc-no-recursion): as deep as max_json_depth
  switch (*at_) {
    case '"':
      return skip_string();
    case '{':
      return depth < max_json_depth &&
             for_each_member([this, depth](text_span) { return skip_value(depth + 1); });
    case '[':
      return depth < max_json_depth && for_each_element([this, depth] { return skip_value(depth + 1); });
    case 't':
      return skip_word("true");
    case 'f':
      return skip_word("false");
    case 'n':
      return skip_word("null");
    default:
      return skip_number();
  }
}

SWITCHYARD_FUNCTION bool json_outliner::skip_word(std::string_view word) noexcept {
  for (const char expected : word) {
    if (!accept(expected)) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION bool json_outliner::skip_digits() noexcept {
  if (!is_digit(*at_)) return false;
  while (is_digit(*at_)) ++at_;
  return true;
}

SWITCHYARD_FUNCTION bool json_outliner::skip_number() noexcept {
  (void)accept('-');
  if (!accept('0') && !skip_digits()) return false;
  if (accept('.') && !skip_digits()) return false;
  if (*at_ == 'e' || *at_ == 'E') {
    ++at_;
    if (*at_ == '+' || *at_ == '-') ++at_;
    return skip_digits();
  }
  return true;
}

SWITCHYARD_FUNCTION bool json_outliner::skip_eight() noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101;
  std::uint64_t bytes = 0;
  __builtin_memcpy(&bytes, at_, sizeof bytes);
  if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
  const auto zeros = [](std::uint64_t word) { return (word - ones) & ~word; };
  const std::uint64_t found =
      (zeros(bytes ^ ones * '"') | zeros(bytes ^ ones * '\\') | ((bytes - ones * 0x20) & ~bytes) | bytes) &
      ones * 0x80;
  at_ += found == 0 ? 8 : std::countr_zero(found) / 8;
  return found == 0;
}

SWITCHYARD_FUNCTION bool json_outliner::skip_string() {
  if (!accept('"')) return false;
  for (;;) {
    while (end_ - at_ >= 8 && skip_eight()) {
    }
    const auto c = static_cast<unsigned char>(*at_);
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c < 0x20) return false;
    if (c == '\\' ? !skip_escape() : c < 0x80 ? (++at_, false) : !skip_character()) return false;
  }
}

SWITCHYARD_FUNCTION bool json_outliner::skip_escape() noexcept {
  ++at_;
  if (accept('u')) {
    for (int i = 0; i < 4; ++i) {
      const char lower = static_cast<char>(*at_ | 0x20);
      if (!is_digit(*at_) && !(lower >= 'a' && lower <= 'f')) return false;
      ++at_;
    }
    return true;
  }
  constexpr std::string_view escapes = "\"\\/bfnrt";
  if (*at_ == '\0' || escapes.find(*at_) == std::string_view::npos) return false;
  ++at_;
  return true;
}

SWITCHYARD_FUNCTION bool json_outliner::skip_character() noexcept {
  const std::size_t length = text::utf8_length({at_, static_cast<std::size_t>(end_ - at_)});
  at_ += length;
  return length > 0;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
