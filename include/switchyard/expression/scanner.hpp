// SPDX-License-Identifier: MIT
// The characters of an expression's text as tokens, numbers and words.
//
// A scanner keeps its position and refuses what it cannot read with an expression_error that names the
// column. It refers to the text, and serves one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

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

  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const;

  /// The next character that is no space, which stays; '\0' at the end of the text.
  [[nodiscard]] char peek() noexcept;
  [[nodiscard]] bool at_end() noexcept;

  /// Skips `token` when it is next and is not the beginning of a longer operator.
  [[nodiscard]] bool take(std::string_view token) noexcept;

  /// Letters, digits and underscores from the current position on, and an index in brackets: `w[2]`.
  [[nodiscard]] std::string_view word() noexcept;

  /// The decimal digits from the current position on.
  [[nodiscard]] std::int64_t integer();

  /// A decimal number with an optional exponent.
  [[nodiscard]] double real();

  [[nodiscard]] static bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  [[nodiscard]] static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  [[nodiscard]] bool continues_real() const noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/scanner_impl.hpp>
#endif
