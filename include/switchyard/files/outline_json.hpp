// SPDX-License-Identifier: MIT
// Finds where the parts of a JSON document lie in its text: one pass that checks the syntax and records
// positions, many times faster than parsing. A part is parsed from its own text when it is needed.
//
// The document is an object. One of its members is an array, of which each element is located, together with
// its "id", "type" and "requires".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// A part of a text of less than 4 GiB. Empty: not there.
struct text_span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  [[nodiscard]] bool empty() const noexcept { return begin == end; }
  [[nodiscard]] std::string_view in(std::string_view text) const noexcept {
    return text.substr(begin, end - begin);
  }
};

struct json_outline {
  struct member {
    text_span key;  ///< as it is spelt, without its quotes
    text_span value;
  };
  struct element {
    text_span whole;
    text_span id;          ///< the value as it is spelt; empty: the element has none, or is no object
    text_span type;        ///< likewise
    text_span conditions;  ///< the value of "requires", likewise
  };

  std::vector<member> members;
  std::vector<element> elements;  ///< of the member that was asked for, if it is an array

  /// The value of the first member with a key; empty: there is none.
  [[nodiscard]] std::string_view value(std::string_view text, std::string_view key) const noexcept;
};

namespace detail {

class json_outliner {
 public:
  explicit json_outliner(const std::string& text) noexcept;

  /// False where the text is no JSON object, or nests too deeply.
  [[nodiscard]] bool outline(std::string_view list, json_outline& out);

  /// The value of a member of the document where it lies whole in the text, which may be cut off behind it;
  /// empty where it does not.
  [[nodiscard]] std::string_view find(std::string_view wanted);

 private:
  // std::string ends with a zero byte, which no JSON has: it stops every loop that looks at one byte.

  [[nodiscard]] std::string_view all() const noexcept {
    return {begin_, static_cast<std::size_t>(end_ - begin_)};
  }
  [[nodiscard]] std::uint32_t position() const noexcept { return static_cast<std::uint32_t>(at_ - begin_); }

  void skip_space() noexcept {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }

  [[nodiscard]] bool accept(char wanted) noexcept;

  /// Goes over an object. `visit` is called with each key and goes over its value; false ends it.
  template <class Visitor>
  [[nodiscard]] bool for_each_member(const Visitor& visit) {
    if (!accept('{')) return false;
    skip_space();
    if (accept('}')) return true;
    for (;;) {
      const std::uint32_t key = position() + 1;
      if (!skip_string()) return false;
      const text_span name{key, position() - 1};
      skip_space();
      if (!accept(':')) return false;
      skip_space();
      if (!visit(name)) return false;
      skip_space();
      if (accept('}')) return true;
      if (!accept(',')) return false;
      skip_space();
    }
  }

  /// The same for an array.
  template <class Visitor>
  [[nodiscard]] bool for_each_element(const Visitor& visit) {
    if (!accept('[')) return false;
    skip_space();
    if (accept(']')) return true;
    for (;;) {
      if (!visit()) return false;
      skip_space();
      if (accept(']')) return true;
      if (!accept(',')) return false;
      skip_space();
    }
  }

  [[nodiscard]] bool outline_elements(json_outline& out);

  /// Goes over a value at a depth of `depth` arrays and objects.
  [[nodiscard]] bool skip_value(std::size_t depth);

  [[nodiscard]] bool skip_word(std::string_view word) noexcept;

  [[nodiscard]] static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

  [[nodiscard]] bool skip_digits() noexcept;

  [[nodiscard]] bool skip_number() noexcept;

  /// Whether the next eight bytes are characters that a string may have and that say nothing of its syntax;
  /// else goes on to the first that is not.
  [[nodiscard]] bool skip_eight() noexcept;

  [[nodiscard]] bool skip_string();

  [[nodiscard]] bool skip_escape() noexcept;

  [[nodiscard]] bool skip_character() noexcept;

  const char* begin_;
  const char* end_;
  const char* at_;
};

}  // namespace detail

/// Outlines a document, with the elements of its member `list`. False where it is no JSON object or nests
/// deeper than max_json_depth; parse_json then says why. Lone surrogates and numbers beyond double's range,
/// which a parser refuses, pass here.
[[nodiscard]] inline bool outline_json(const std::string& text, std::string_view list, json_outline& out) {
  return text.size() <= UINT32_MAX && detail::json_outliner{text}.outline(list, out);
}

/// The value of a member of a document whose text may be cut off behind it; empty: not found.
[[nodiscard]] inline std::string_view find_member(const std::string& text, std::string_view key) {
  return detail::json_outliner{text}.find(key);
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/outline_json_impl.hpp>
#endif
