// SPDX-License-Identifier: MIT
// The bodies of scanner.hpp.
#pragma once

#include <clocale>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/scanner.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION void expression_scanner::fail(const std::string& problem) const {
  fail_at(at_, problem);
}

SWITCHYARD_FUNCTION void expression_scanner::fail_at(std::size_t position, const std::string& problem) const {
  throw expression_error{"'" + text::shortened(text_, 80) + "': column " + std::to_string(position + 1) +
                         ": " + text::shortened(problem, 300)};
}

SWITCHYARD_FUNCTION char expression_scanner::peek() noexcept {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

SWITCHYARD_FUNCTION bool expression_scanner::at_end() noexcept {
  skip_space();
  return at_ == text_.size();
}

SWITCHYARD_FUNCTION bool expression_scanner::take(std::string_view token) noexcept {
  skip_space();
  if (text_.substr(at_, token.size()) != token) return false;
  const char next = at_ + token.size() < text_.size() ? text_[at_ + token.size()] : '\0';
  if ((token == "<" || token == ">") && (next == '=' || next == token[0])) return false;
  if (token == "!" && next == '=') return false;
  at_ += token.size();
  return true;
}

SWITCHYARD_FUNCTION std::string_view expression_scanner::word() noexcept {
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

SWITCHYARD_FUNCTION std::int64_t expression_scanner::integer() {
  std::int64_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
      fail("the number does not fit 64 bits");
  }
  return value;
}

SWITCHYARD_FUNCTION double expression_scanner::real() {
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

SWITCHYARD_FUNCTION bool expression_scanner::continues_real() const noexcept {
  const char c = text_[at_];
  if (c == '-' || c == '+') return text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E';
  return is_digit(c) || c == '.' || c == 'e' || c == 'E';
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
