// SPDX-License-Identifier: MIT
// Checks JSON text before it is parsed, in one pass: its depth; zero bytes, at which the parser would stop as
// if the text ended; and repeated keys of an object, of which the parser would silently keep the last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// How deep a JSON file may nest.
inline constexpr std::size_t max_json_depth = 64;

struct json_scan {
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  std::size_t depth = 0;            ///< of the deepest array or object
  std::size_t zero_byte = nowhere;  ///< where the first one is
  std::string repeated_key;         ///< JSON pointer of the first one
  bool has_repeated_key = false;
};

namespace detail {

class json_scanner {
 public:
  /// Any bytes. What it says of text that is no JSON means nothing but the depth, which is never too small.
  [[nodiscard]] json_scan scan(std::string_view text);

 private:
  static constexpr std::size_t few_keys = 16;

  [[nodiscard]] static bool is_structure(char c) noexcept;

  struct level {
    std::size_t first_key = 0;                                   ///< of this object, among all that are open
    std::size_t index = 0;                                       ///< of the element, in an array
    std::string_view key;                                        ///< of the member, in an object
    std::unique_ptr<std::unordered_set<std::string_view>> many;  ///< its keys, where they are not few
  };

  void note_zero(std::size_t at) {
    if (out_.zero_byte == json_scan::nowhere) out_.zero_byte = at;
  }

  void open();

  void close();

  void add_key(std::string_view key);

  [[nodiscard]] bool is_known(level& here, std::string_view key);

  /// A key as it is meant: "\u0061" is "a". Lone surrogates stay as they are spelt; the parser refuses them.
  [[nodiscard]] static std::string decode(std::string_view key);

  /// The number in "uXXXX"; more than any character has where that is not what is there.
  [[nodiscard]] static std::uint32_t unit(std::string_view key, std::size_t at);

  static void add_utf8(std::string& out, std::uint32_t code);

  /// The JSON pointer to the member that is being read.
  [[nodiscard]] std::string pointer() const;

  json_scan out_;
  std::size_t level_ = 0;
  std::array<level, max_json_depth> levels_{};
  std::vector<std::string_view> keys_;
  std::string_view string_;
  std::set<std::string> decoded_;  ///< keys that are spelt with escapes
};

}  // namespace detail

[[nodiscard]] inline json_scan scan_json(std::string_view text) {
  return detail::json_scanner{}.scan(text);
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/scan_json_impl.hpp>
#endif
