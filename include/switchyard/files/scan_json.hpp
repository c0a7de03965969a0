// What is looked for in JSON text before it is parsed, in one pass over it: how deep it nests, a zero byte,
// where the parser would stop as if the text ended, and keys that stand twice in an object, of which the
// parser would keep the last without a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

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
  [[nodiscard]] json_scan scan(std::string_view text) {
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

 private:
  static constexpr std::size_t few_keys = 16;

  [[nodiscard]] static bool is_structure(char c) noexcept {
    static constexpr std::array<bool, 256> yes = [] {
      std::array<bool, 256> out{};
      for (const char each : std::string_view{"\0\",:[]{}", 8}) out[static_cast<unsigned char>(each)] = true;
      return out;
    }();
    return yes[static_cast<unsigned char>(c)];
  }

  struct level {
    std::size_t first_key = 0;                                   ///< of this object, among all that are open
    std::size_t index = 0;                                       ///< of the element, in an array
    std::string_view key;                                        ///< of the member, in an object
    std::unique_ptr<std::unordered_set<std::string_view>> many;  ///< its keys, where they are not few
  };

  void note_zero(std::size_t at) {
    if (out_.zero_byte == json_scan::nowhere) out_.zero_byte = at;
  }

  void open() {
    if (++level_ > out_.depth) out_.depth = level_;
    if (level_ > max_json_depth) return;
    level& here = levels_[level_ - 1];
    here.first_key = keys_.size();
    here.index = 0;
    here.key = {};
    here.many.reset();
  }

  void close() {
    if (level_ == 0) return;
    if (level_ <= max_json_depth) keys_.resize(levels_[level_ - 1].first_key);
    --level_;
  }

  void add_key(std::string_view key) {
    if (level_ == 0 || level_ > max_json_depth) return;
    if (key.find('\\') != std::string_view::npos) key = decoded_.emplace_back(decode(key));
    level& here = levels_[level_ - 1];
    here.key = key;
    if (is_known(here, key)) {
      if (!out_.has_repeated_key) out_.repeated_key = pointer();
      out_.has_repeated_key = true;
      return;
    }
    keys_.push_back(key);
  }

  [[nodiscard]] bool is_known(level& here, std::string_view key) {
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

  /// A key as it is meant: "\u0061" is "a". Lone surrogates stay as they are spelt; the parser refuses them.
  [[nodiscard]] static std::string decode(std::string_view key) {
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

  /// The number in "uXXXX"; more than any character has where that is not what is there.
  [[nodiscard]] static std::uint32_t unit(std::string_view key, std::size_t at) {
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

  static void add_utf8(std::string& out, std::uint32_t code) {
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

  /// Of the member that is being read.
  [[nodiscard]] std::string pointer() const {
    std::string out;
    for (std::size_t i = 0; i < level_; ++i) {
      const level& each = levels_[i];
      out += '/';
      if (each.key.data() == nullptr) {
        out += std::to_string(each.index);
        continue;
      }
      for (const char c : each.key.substr(0, 64)) {  // RFC 6901
        if (c == '~' || c == '/') {
          out += c == '~' ? "~0" : "~1";
        } else {
          out += c;
        }
      }
    }
    return out;
  }

  json_scan out_;
  std::size_t level_ = 0;
  std::array<level, max_json_depth> levels_{};
  std::vector<std::string_view> keys_;
  std::string_view string_;
  std::deque<std::string> decoded_;  ///< keys that are spelt with escapes
};

}  // namespace detail

[[nodiscard]] inline json_scan scan_json(std::string_view text) {
  return detail::json_scanner{}.scan(text);
}

}  // namespace v0
}  // namespace switchyard
