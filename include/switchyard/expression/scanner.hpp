// The characters of an expression's text as tokens, numbers and words.
//
// A scanner keeps its position and refuses what it cannot read with an expression_error that names the
// column. It refers to the text, and serves one thread.
#pragma once

#include <clocale>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <switchyard/base/text.hpp>

namespace switchyard {
inline namespace v0 {

/// What is wrong with an expression's text, with its column.
class expression_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

class expression_scanner {
 public:
  explicit expression_scanner(std::string_view text) noexcept : text_{text} {}

  [[nodiscard]] std::size_t position() const noexcept { return at_; }

  [[noreturn]] void fail(const std::string& problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const {
    throw expression_error{"'" + text::shortened(text_, 80) + "': column " + std::to_string(position + 1) +
                           ": " + text::shortened(problem, 300)};
  }

  /// The next character that is no space, which stays; '\0' at the end of the text.
  [[nodiscard]] char peek() noexcept {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[nodiscard]] bool at_end() noexcept {
    skip_space();
    return at_ == text_.size();
  }

  /// Skips `token` when it is next and is not the beginning of a longer operator.
  [[nodiscard]] bool take(std::string_view token) noexcept {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    const char next = at_ + token.size() < text_.size() ? text_[at_ + token.size()] : '\0';
    if ((token == "<" || token == ">") && (next == '=' || next == token[0])) return false;
    if (token == "!" && next == '=') return false;
    at_ += token.size();
    return true;
  }

  /// Letters, digits and underscores from the current position on, and an index in brackets: `w[2]`.
  [[nodiscard]] std::string_view word() noexcept {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    std::size_t end = at_;
    if (end < text_.size() && text_[end] == '[') {
      while (++end < text_.size() && is_digit(text_[end])) {
      }
      if (end > at_ + 1 && end < text_.size() && text_[end] == ']') at_ = end + 1;
    }
    return text_.substr(start, at_ - start);
  }

  /// The decimal digits from the current position on.
  [[nodiscard]] std::int64_t integer() {
    std::int64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("the number does not fit 64 bits");
    }
    return value;
  }

  /// A decimal number with an optional exponent.
  [[nodiscard]] double real() {
    const std::size_t start = at_;
    while (at_ < text_.size() && continues_real()) ++at_;
    const std::string digits{text_.substr(start, at_ - start)};
    std::string local = digits;  // std::stod expects the decimal point of the engine's locale
    if (const std::size_t point = local.find('.'); point != std::string::npos) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): unsafe only while another thread changes the process's locale
      local.replace(point, 1, std::localeconv()->decimal_point);
    }
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(local, &used);
    } catch (const std::logic_error&) {  // out_of_range, invalid_argument
      used = 0;
    }
    if (used != local.size()) fail_at(start, "'" + digits + "' is not a number");
    return value;
  }

  [[nodiscard]] static bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  [[nodiscard]] static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  [[nodiscard]] bool continues_real() const noexcept {
    const char c = text_[at_];
    if (c == '-' || c == '+') return text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E';
    return is_digit(c) || c == '.' || c == 'e' || c == 'E';
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
