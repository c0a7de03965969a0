// Texts of files that were written before an axis or an argument was renamed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

/// An expression or a problem's text with former names replaced, so that texts of one meaning compare equal.
[[nodiscard]] inline std::string with_current_names(const operator_description& op, std::string_view text) {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && in_name(text[end])) ++end;
    out += current_name(op, text.substr(begin, end - begin));
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
