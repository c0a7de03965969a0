// Where the parts of a JSON document lie in its text: one pass that checks the syntax and keeps nothing but
// positions, many times faster than parsing. What is asked for later is parsed from its own text.
//
// The document is an object. Of one of its members, an array, each element is outlined: where it is, and
// where its "id", "type", "requires", "cost" and "axes" are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/files/scan_json.hpp>

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
    text_span cost;        ///< likewise
    text_span axes;        ///< likewise
  };

  std::vector<member> members;
  std::vector<element> elements;  ///< of the member that was asked for, if it is an array

  /// The value of the first member with a key; empty: there is none.
  [[nodiscard]] std::string_view value(std::string_view text, std::string_view key) const noexcept {
    for (const member& each : members) {
      if (each.key.in(text) == key) return each.value.in(text);
    }
    return {};
  }
};

namespace detail {

class json_outliner {
 public:
  explicit json_outliner(const std::string& text) noexcept
      : begin_{text.data()}, end_{text.data() + text.size()}, at_{begin_} {
    if (text.starts_with("\xef\xbb\xbf")) at_ += 3;  // a byte order mark
  }

  /// False where the text is no JSON object, or nests too deeply.
  [[nodiscard]] bool outline(std::string_view list, json_outline& out) {
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

  /// The value of a member of the document where it lies whole in the text, which may be cut off behind it;
  /// empty where it does not.
  [[nodiscard]] std::string_view find(std::string_view wanted) {
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

 private:
  // std::string ends with a zero byte, which no JSON has: it stops every loop that looks at one byte.

  [[nodiscard]] std::string_view all() const noexcept {
    return {begin_, static_cast<std::size_t>(end_ - begin_)};
  }
  [[nodiscard]] std::uint32_t position() const noexcept { return static_cast<std::uint32_t>(at_ - begin_); }

  void skip_space() noexcept {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }

  [[nodiscard]] bool accept(char wanted) noexcept {
    if (*at_ != wanted) return false;
    ++at_;
    return true;
  }

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

  [[nodiscard]] bool outline_elements(json_outline& out) {
    return for_each_element([&] {
      json_outline::element each;
      each.whole.begin = position();
      const bool good = *at_ != '{' ? skip_value(2) : for_each_member([&](text_span key) {
        const std::string_view name = key.in(all());
        const std::uint32_t first = position();
        if (!skip_value(3)) return false;
        if (name == "id") each.id = {first, position()};
        if (name == "type") each.type = {first, position()};
        if (name == "requires") each.conditions = {first, position()};
        if (name == "cost") each.cost = {first, position()};
        if (name == "axes") each.axes = {first, position()};
        return true;
      });
      each.whole.end = position();
      out.elements.push_back(each);
      return good;
    });
  }

  /// Goes over a value at a depth of `depth` arrays and objects.
  [[nodiscard]] bool skip_value(std::size_t depth) {  // NOLINT(misc-no-recursion): as deep as max_json_depth
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

  [[nodiscard]] bool skip_word(std::string_view word) noexcept {
    for (const char each : word) {
      if (!accept(each)) return false;
    }
    return true;
  }

  [[nodiscard]] static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

  [[nodiscard]] bool skip_digits() noexcept {
    if (!is_digit(*at_)) return false;
    while (is_digit(*at_)) ++at_;
    return true;
  }

  [[nodiscard]] bool skip_number() noexcept {
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

  /// Whether the next eight bytes are characters that a string may have and that say nothing of its syntax;
  /// else goes on to the first that is not.
  [[nodiscard]] bool skip_eight() noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101;
    std::uint64_t bytes = 0;
    __builtin_memcpy(&bytes, at_, sizeof bytes);
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
    const auto zeros = [](std::uint64_t each) { return (each - ones) & ~each; };
    const std::uint64_t found =
        (zeros(bytes ^ ones * '"') | zeros(bytes ^ ones * '\\') | ((bytes - ones * 0x20) & ~bytes) | bytes) &
        ones * 0x80;
    at_ += found == 0 ? 8 : std::countr_zero(found) / 8;
    return found == 0;
  }

  [[nodiscard]] bool skip_string() {
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

  [[nodiscard]] bool skip_escape() noexcept {
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

  [[nodiscard]] bool skip_character() noexcept {
    const std::size_t length = text::utf8_length({at_, static_cast<std::size_t>(end_ - at_)});
    at_ += length;
    return length > 0;
  }

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
