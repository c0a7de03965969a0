// SPDX-License-Identifier: MIT
// Reads what PTX says of its kernels: their names, parameters and launch bounds. It is no compiler: a
// parameter that it does not understand leaves that kernel's parameters unknown.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/tool/blob_facts.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

[[nodiscard]] inline bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// Words of PTX, one after the other: a name, a number, or a directive with its dot.
[[nodiscard]] inline std::string_view next_word(std::string_view& text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  std::size_t length = 0;
  while (length < text.size() && !is_space(text[length]) && text[length] != ',' && text[length] != '(' &&
         text[length] != '[' && text[length] != '{') {
    ++length;
  }
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

[[nodiscard]] inline std::optional<std::uint32_t> number_of(std::string_view word) noexcept {
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// Bytes of ".u64", ".b8" and their kin.
[[nodiscard]] inline std::optional<std::uint32_t> bytes_of_type(std::string_view word) noexcept {
  if (word.size() < 3 || word[0] != '.') return std::nullopt;
  constexpr std::string_view letters = "bsuf";
  if (letters.find(word[1]) == std::string_view::npos) return std::nullopt;
  const auto bits = number_of(word.substr(2));
  if (!bits || (*bits != 8 && *bits != 16 && *bits != 32 && *bits != 64)) return std::nullopt;
  return *bits / 8;
}

/// ".param .align 8 .b8 name[16]" or ".param .u64 .ptr .global .align 16 name".
[[nodiscard]] inline bool read_ptx_parameter(std::string_view text, std::uint32_t& end,
                                             std::vector<parameter_slot>& out) {
  if (next_word(text) != ".param") return false;
  std::uint32_t align = 0;
  std::optional<std::uint32_t> unit;
  while (!unit) {
    const std::string_view word = next_word(text);
    if (word == ".align") {
      const auto value = number_of(next_word(text));
      if (!value) return false;
      align = *value;
    } else if (unit = bytes_of_type(word); !unit) {
      return false;
    }
  }
  std::uint32_t count = 1;
  if (const std::size_t bracket = text.find('['); bracket != std::string_view::npos) {
    const auto value = number_of(text.substr(bracket + 1, text.find(']') - bracket - 1));
    if (!value || *value > 32764) return false;
    count = *value;
  }
  if (align == 0) align = *unit;
  if (align > 4096) return false;
  end = (end + align - 1) / align * align;
  out.push_back({end, *unit * count});
  end += *unit * count;
  return true;
}

[[nodiscard]] inline std::optional<std::vector<parameter_slot>> read_ptx_parameters(std::string_view text) {
  std::vector<parameter_slot> out;
  std::uint32_t end = 0;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const bool blank = one.find_first_not_of(" \t\r\n") == std::string_view::npos;
    if (!blank && !read_ptx_parameter(one, end, out)) return std::nullopt;
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

/// ".maxntid 128, 1, 1" in the directives before a kernel's body.
[[nodiscard]] inline std::uint32_t read_ptx_bound(std::string_view directives) noexcept {
  for (const std::string_view name : {".maxntid", ".reqntid"}) {
    const std::size_t at = directives.find(name);
    if (at == std::string_view::npos) continue;
    std::string_view rest = directives.substr(at + name.size());
    std::uint32_t threads = 1;
    for (int i = 0; i < 3; ++i) {
      const auto extent = number_of(next_word(rest));
      if (!extent || *extent > 1024) return 0;
      threads *= *extent;
      while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
      if (!rest.starts_with(',')) break;
      rest.remove_prefix(1);
    }
    return threads;
  }
  return 0;
}

}  // namespace detail

[[nodiscard]] inline blob_facts read_ptx(std::string_view text) {
  blob_facts out;
  out.backend = "cuda";
  if (const std::size_t at = text.find(".target"); at != std::string_view::npos) {
    std::string_view rest = text.substr(at + 7);
    const std::string_view word = detail::next_word(rest);
    if (word.starts_with("sm_")) out.arch = "compute_" + std::string{word.substr(3)};
  }
  constexpr std::string_view entry = ".entry";
  for (std::size_t at = text.find(entry); at != std::string_view::npos; at = text.find(entry, at)) {
    at += entry.size();
    std::string_view rest = text.substr(at);
    if (rest.empty() || !detail::is_space(rest.front())) continue;
    kernel_facts& kernel = out.kernels.emplace_back();
    kernel.name = detail::next_word(rest);
    const std::size_t body = rest.find('{');
    std::string_view head = rest.substr(0, body);
    kernel.parameters.emplace();
    if (const std::size_t open = head.find('('); open != std::string_view::npos) {
      const std::size_t close = head.find(')', open);
      kernel.parameters = detail::read_ptx_parameters(head.substr(open + 1, close - open - 1));
      head = close == std::string_view::npos ? std::string_view{} : head.substr(close + 1);
    }
    kernel.max_threads = detail::read_ptx_bound(head);
  }
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
